"""Run the tests of the frontier once for each mutant, and say which of these survived."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from rich.console import Console

from mutation.mutants import Mutant, all_mutants, choose

_HERE = Path(__file__).parent
_ROOT = _HERE.parent.parent
_ARGUED = _HERE / "survivors.toml"
_TESTS = (
    "tests/integration/test_frontier_random.py",
    *(
        path.relative_to(_ROOT).as_posix()
        for pattern in ("test_frontier_*.py", "test_throttle_*.py")
        for path in sorted((_ROOT / "tests/integration").glob(pattern))
        if path.stem not in {"test_frontier_random", "test_frontier_planted"}
    ),
)
"""The random lives first: they find most, in a second."""
_LIVES = "60"
_TIMEOUT_S = 400


_say = Console(markup=False, highlight=False, soft_wrap=True).print


def main() -> int:
    """Answer 1 where a mutant survived that nobody has argued for."""
    options = _options()
    chosen = choose(_wanted(all_mutants(), options.only), options.most, options.seed)
    argued = tomllib.loads(_ARGUED.read_text())["survivors"]
    _say(f"{len(chosen)} mutants, {options.jobs} at a time")
    with ThreadPoolExecutor(options.jobs) as pool:
        fates = [*pool.map(_fate, chosen)]
    survivors = [one for one, fate in zip(chosen, fates, strict=True) if fate == "SURVIVED"]
    unargued = [one for one in survivors if one.key not in argued]
    killed = len(chosen) - len(survivors)
    _say(
        f"{len(chosen)} mutants, {killed} killed ({killed / len(chosen):.1%}),"
        f" {len(survivors)} survived, {len(unargued)} of them without a reason"
    )
    for mutant in survivors:
        _say(f"  {mutant.key}\n      {argued.get(mutant.key, 'NO REASON')}")
    if options.json:
        Path(options.json).write_text(json.dumps([*zip(chosen, fates, strict=True)], indent=1))
    return 1 if unargued else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("--most", type=int, default=200, help="about so many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which of all that are possible")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--jobs", type=int, default=2, help="runs of the tests at a time")
    parser.add_argument("--json", help="a file for the fate of each")
    return parser.parse_args()


def _wanted(mutants: Iterable[Mutant], only: str) -> Iterable[Mutant]:
    return (mutant for mutant in mutants if only in mutant.file)


def _fate(mutant: Mutant) -> str:
    """Run the tests until one is red."""
    began = time.monotonic()
    tests = subprocess.Popen(
        (sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "mutation.plugin", *_TESTS),
        cwd=_ROOT,
        env={**os.environ, "MUTANT": json.dumps(mutant), "FRONTIER_SEEDS": _LIVES},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        said, _ = tests.communicate(timeout=_TIMEOUT_S)
        fate = _told(said, tests.returncode)
    except subprocess.TimeoutExpired:
        fate = "killed: a script never ended"
    finally:
        _end(tests)
    _say(f"{time.monotonic() - began:5.0f} s  {fate:60.60}  {mutant.name}")
    return fate


def _end(tests: subprocess.Popen[str]) -> None:
    """A server whose script never ends hears SIGKILL only."""
    with suppress(ProcessLookupError):
        os.killpg(tests.pid, signal.SIGKILL)
    tests.communicate()


def _told(said: str, code: int) -> str:
    if code == 0:
        return "SURVIVED"
    red = [line for line in said.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    name = red[0].split("::", 1)[-1].split(" - ")[0] if red else f"exit {code}"
    return f"killed: {name}"


if __name__ == "__main__":
    sys.exit(main())
