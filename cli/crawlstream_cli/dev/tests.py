"""``crawlstream test``: pytest over one tier, over what a change reaches, or over named files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from crawlstream.errors import ConfigError
from crawlstream_cli.dev.checks import CHECKED
from crawlstream_cli.local.home import checkout

_SIDE_BY_SIDE = ("-n", "8", "--dist", "loadfile", "--no-loadscope-reorder")
"""Most of a test's time is waiting for servers: eight files run at once, the long ones first."""

_QUICK_WORKERS = ("-n", "2", "--dist", "loadfile", "--no-loadscope-reorder")
"""Unit tests do not wait: one worker a core."""

QUICK = (
    "tests/unit",
    "tests/contract/frontier",
    "tests/integration/bus/test_topics.py",
    "tests/integration/crawler/test_lane.py",
    "tests/integration/kafka_monitor/test_order_of_effects.py",
    "tests/integration/redis_monitor/test_outbox.py",
    "tests/integration/throttle/test_edit.py",
)
"""The tier of `--quick`: what needs no cluster, and one file a component with real servers."""


PROOFS = (
    "tests/mutation",
    "tests/model",
    "tests/referees",
    "tests/chaos/**/test_broken*.py",
    "tests/interplay/test_planted.py",
    "tests/integration/frontier/test_aof.py",
    "tests/integration/frontier/**/test_planted.py",
    "tests/integration/frontier/**/test_traces.py",
)
"""The tier of `--proofs`, as patterns: tests that plant bugs and break processes on purpose, which
prove that other tests would notice, and comparisons with programs of other projects. Only a change
of the tests, of the frontier's Lua, of `chaos` or of the readers of robots.txt and directives can
change what they find, so that `test` leaves them out."""


def run_tests(
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Options and arguments for pytest.")
    ] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Run the unit and contract tests, and one file a component."),
    ] = False,
    changed: Annotated[
        bool,
        typer.Option("--changed", help="Run the test files that import what you have changed."),
    ] = False,
    since: Annotated[
        str, typer.Option("--since", help="With --changed: the commit to compare with.")
    ] = "HEAD",
    proofs: Annotated[
        bool,
        typer.Option("--proofs", help="Run the tests of the tests: bugs planted on purpose."),
    ] = False,
) -> None:
    """Run all tests but the proofs, one tier, or those that pytest's arguments select.

    The tests of sizes, Lua and supply are run by `crawlstream check` instead. Tests start their
    own servers on free ports. Eight test files run in parallel (-n 0: one).

    Example: crawlstream test --quick
    """
    os.chdir(checkout("tests").parent)
    if quick + changed + proofs > 1:
        raise ConfigError("--quick, --changed and --proofs exclude each other: name one")
    # Hundreds of processes are started, and each would compile what it imports, and rewrite tests.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    selected = _tier(arguments or (), quick=quick, since=since if changed else "", proofs=proofs)
    # In place of this process, so that whatever ends the command ends the tests.
    argv = (sys.executable, "-m", "pytest", *selected, *(arguments or ()))
    os.execv(sys.executable, argv)  # noqa: S606  no shell


def _tier(arguments: Sequence[str], *, quick: bool, since: str, proofs: bool) -> Sequence[str]:
    """Return pytest's arguments for the tier; files that ``arguments`` name come without one."""
    folder = checkout("tests").parent
    checked = [f"--ignore={each}" for each in CHECKED]
    if quick:
        return (*_QUICK_WORKERS, *checked, *QUICK)
    if proofs:
        return (*_SIDE_BY_SIDE, *_matching(folder, PROOFS))
    if since:
        # Needs a package of the set `dev`, which is not installed for `--help`.
        from crawlstream_cli.dev.changed import reached_tests

        found = reached_tests(folder, since)
        if not found:
            print(f"No test reaches what has changed since {since}.")
            raise typer.Exit
        return (*_SIDE_BY_SIDE, *found)
    if any((folder / each.partition("::")[0]).exists() for each in arguments):
        return _SIDE_BY_SIDE
    return (*_SIDE_BY_SIDE, *checked, *(f"--ignore={each}" for each in _matching(folder, PROOFS)))


def _matching(folder: Path, patterns: Sequence[str]) -> Sequence[str]:
    return [
        str(path.relative_to(folder)) for each in patterns for path in sorted(folder.glob(each))
    ]
