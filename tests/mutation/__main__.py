"""Run the tests of the frontier once for each mutant, and say which of these survived.

First without any: they must be green, and what each takes decides which a mutant faces first.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rich.console import Console

from mutation.mutants import Mutant, all_mutants, choose
from mutation.order import Order
from mutation.runs import collect, run

_ARGUED = Path(__file__).parent / "survivors.toml"
SURVIVED = "SURVIVED"
_say = Console(markup=False, highlight=False, soft_wrap=True).print


def main() -> int:
    """Return 1 if a mutant survived that ``survivors.toml`` does not explain."""
    options = _options()
    before: dict[str, Any] = json.loads(Path(options.again).read_text()) if options.again else {}
    order = Order(collect(), before.get("seconds") or _seconds())
    if before:
        found = {mutant.key: mutant for mutant in all_mutants()}
        keys = [key for key, fate in before["fates"].items() if fate == SURVIVED]
        chosen = [found[key] for key in keys if key in found]
    else:
        mutants = (one for one in all_mutants() if options.only in one.file)
        chosen = choose(mutants, options.most, options.seed)
    _say(f"{len(chosen)} mutants, {options.jobs} at a time")
    with ThreadPoolExecutor(options.jobs) as pool:
        fates = pool.map(lambda one: _fate(one, order, options.within), chosen)
        judged = zip(chosen, fates, strict=True)
        return _report(judged, order, options.json)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m mutation", description=__doc__)
    parser.add_argument("--most", type=int, default=200, help="about so many mutants")
    parser.add_argument("--seed", type=int, default=1, help="which of all that are possible")
    parser.add_argument("--only", default="", help="files whose path has this in it")
    parser.add_argument("--jobs", type=int, default=2, help="runs of the tests at a time")
    parser.add_argument("--within", type=float, help="only the first tests, of so many seconds")
    parser.add_argument("--json", help="a file for the fate of each")
    parser.add_argument("--again", help="such a file: those that survived then, and no others")
    return parser.parse_args()


def _seconds() -> dict[str, float]:
    """How long each test takes while nothing is wrong."""
    done = run(None, None)
    if done.red:
        raise SystemExit(f"red without any mutant: {done.red}")
    _say(f"{len(done.seconds)} tests, {sum(done.seconds.values()):.0f} s")
    return dict(done.seconds)


def _fate(mutant: Mutant, order: Order, within: float | None) -> str:
    """Run the tests until one is red; who survives them all lives more random lives."""
    done = run(mutant, order.of(mutant.file, within))
    if not done.red and within is None:
        done = done.then(run(mutant, None, more_lives=True))
    if done.red:
        order.killed(mutant.file, done.red)
    fate = f"killed: {done.red.split('::', 1)[-1]}" if done.red else SURVIVED
    _say(f"{done.took_s:5.0f} s  {fate:60.60}  {mutant.name}")
    return fate


def _report(judged: Any, order: Order, file: str | None) -> int:
    argued, fates = tomllib.loads(_ARGUED.read_text())["survivors"], dict[str, str]()
    for mutant, fate in judged:
        fates[mutant.key] = fate
        if file:
            told = {"seconds": order.seconds, "fates": fates}
            Path(file).write_text(json.dumps(told, indent=1))
    survivors = [key for key, fate in fates.items() if fate == SURVIVED]
    unargued = [key for key in survivors if key not in argued]
    killed = len(fates) - len(survivors)
    _say(
        f"{len(fates)} mutants, {killed} killed ({killed / max(len(fates), 1):.1%}),"
        f" {len(survivors)} survived, {len(unargued)} of them without a reason"
    )
    for key in survivors:
        _say(f"  {key}\n      {argued.get(key, 'NO REASON')}")
    return 1 if unargued else 0


if __name__ == "__main__":
    sys.exit(main())
