"""The tool behind ``crawlstream chaos``: a stage, rounds on it, a report."""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from chaos import report
from chaos.facts import Violation
from chaos.nemesis import FAULTS
from chaos.rounds import Outcome, Round, Say
from chaos.scenarios import SCENARIOS, Scenario, chosen
from chaos.stage import Stage
from crawlstream.boot.log import configure_for_command
from crawlstream.cli.crawl import INTERRUPTED
from crawlstream.errors import CrawlstreamError
from crawlstream.local.home import default_home

WORKERS = 2
_PAGES_A_HOST = 40


class Chaos:
    """Plays scenarios on one stage until the time is over."""

    def __init__(self, options: argparse.Namespace, console: Console) -> None:
        self._options = options
        self._console = console
        self.outcomes: list[Outcome] = []

    async def run(self) -> None:
        """One round after the other."""
        options, pages = self._options, self._options.pages
        home = default_home().path / "chaos"
        hosts = min(100, max(2, pages // _PAGES_A_HOST))
        self._console.print(f"Starting servers, {WORKERS} crawlers and a site in {home}")
        stage = Stage(home, pages=pages, hosts=hosts, seed=1, workers=WORKERS)
        async with stage:
            until = time.monotonic() + options.seconds
            for number, scenario in enumerate(cycle(_scenarios(options))):
                is_first_time = number < len(_scenarios(options))
                if time.monotonic() > until and not is_first_time:
                    break
                self.outcomes.append(await self._round(stage, scenario, number))
                self.report()
                gc.collect()

    async def _round(self, stage: Stage, scenario: Scenario, number: int) -> Outcome:
        seconds = max(self._options.round_seconds, scenario.shortest_s)
        seed = self._options.seed + number
        say = self._say(scenario.name)
        round_ = Round(
            stage,
            f"{scenario.name}-{number}",
            seed,
            seconds,
            is_long=self._options.long,
            say=say,
        )
        with self._bar(round_):
            outcome = replace(await scenario.play(round_), scenario=scenario.name)
        verdict = f"{len(outcome.violations)} violations" if outcome.violations else "all laws kept"
        say(
            f"round {number + 1}: {outcome.pages} pages, {outcome.repeated} again,"
            f" {outcome.landed.total()} faults landed, {verdict}"
        )
        for violation in outcome.violations:
            say(f"{violation.law}: {violation.what}")
        return outcome

    @property
    def flat(self) -> Sequence[Violation]:
        """What grew from round to round."""
        return list(report.flatness([outcome.footprint for outcome in self.outcomes]))

    def report(self) -> None:
        """Write down what is known so far."""
        options = self._options
        about = {"seed": options.seed, "pages": options.pages, "faults": options.faults}
        report.write(options.report, self.outcomes, self.flat, **about)

    def _say(self, scenario: str) -> Say:
        began = time.monotonic()

        def say(sentence: str) -> None:
            at = time.monotonic() - began
            self._console.print(
                f"{at:6.1f} s  {scenario}  {sentence}", markup=False, soft_wrap=True
            )

        return say

    @contextmanager
    def _bar(self, round_: Round) -> Iterator[None]:
        """How many of the pages that must come have come."""
        columns = (TextColumn("pages"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("", total=None)

            async def tick() -> None:
                while True:
                    bar.update(task, completed=round_.came, total=round_.expected or None)
                    await asyncio.sleep(0.5)

            ticker = asyncio.get_running_loop().create_task(tick())
            try:
                yield
            finally:
                ticker.cancel()


def main() -> int:
    """Run what was asked for; 1 where a law was broken."""
    options = _options()
    configure_for_command()
    # The table has no place in the 80 columns of a pipe.
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    if options.list:
        _list(console)
        return 0
    chaos = Chaos(options, console)
    try:
        asyncio.run(chaos.run())
    except KeyboardInterrupt:
        return INTERRUPTED
    except CrawlstreamError as error:
        sys.stderr.write(f"crawlstream: {error}\n")
        return 1
    report.show(chaos.outcomes, chaos.flat, console)
    console.print(f"{options.report} has every fault with its time, and every count.")
    return int(bool(chaos.flat) or any(outcome.violations for outcome in chaos.outcomes))


def _scenarios(options: argparse.Namespace) -> Sequence[Scenario]:
    """What ``--faults`` names: scenarios, or faults, or both."""
    names = [name for name in options.faults.split(",") if name]
    if names == ["table"]:
        return list(SCENARIOS.values())
    found = [SCENARIOS[name] for name in names if name in SCENARIOS]
    faults = [name for name in names if name in FAULTS]
    return [*found, *([chosen(faults)] if faults else [])]


def _list(console: Console) -> None:
    for title, table in (("Scenarios", SCENARIOS), ("Faults", FAULTS)):
        console.print(f"[bold]{title}[/]")
        for name, each in table.items():
            console.print(f"  {name:<22}{each.about}", markup=False, soft_wrap=True)


def _known(text: str) -> str:
    unknown = {name for name in text.split(",") if name} - {*SCENARIOS, *FAULTS, "table"}
    if unknown:
        names = ", ".join(sorted(unknown))
        raise argparse.ArgumentTypeError(f"no such fault or scenario: {names}; see --list")
    return text


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="crawlstream chaos", description=__doc__)
    parser.add_argument("--faults", type=_known, default="combined")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--round-seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pages", type=int, default=1000)
    parser.add_argument("--report", type=Path, default=Path("chaos-report.json"))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
