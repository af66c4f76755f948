"""Implementation of ``crawlstream chaos``: a cluster, rounds of faults on it, a report."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from crawlstream.errors import SetupError
from crawlstream.tasks import leaves_of
from crawlstream_chaos import report
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.facts.facts import RoundFailed, Violation
from crawlstream_chaos.nemesis import FAULTS, OF_SEARCH, OF_SHELF
from crawlstream_chaos.rounds import Round, RoundResult, Say
from crawlstream_chaos.scenarios import SCENARIOS, Scenario, chosen
from crawlstream_chaos.strikes.pipeline_faults import OF_PIPELINES
from crawlstream_chaos.versions.before import before
from crawlstream_cli.local.home import default_home

WORKERS = 2
RENDERERS = 2
"""Crawlers with a browser, where one of the scenarios is about them."""
PIPELINES = 2
"""Processes of them, where one of the scenarios strikes them."""
_PAGES_A_HOST = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of ``crawlstream chaos``."""

    faults: str
    """Names of faults or scenarios with commas between, none of them unknown."""
    seconds: float
    round_seconds: float
    seed: int
    pages: int
    report: Path
    is_long: bool = False
    partitions: int = 1

    @property
    def scenarios(self) -> Sequence[Scenario]:
        """The scenarios that are named (all of them by ``table``), then one of the faults."""
        names = _split(self.faults)
        found = [
            scenario
            for name, scenario in SCENARIOS.items()
            if name in names or ("table" in names and scenario.fits(self.partitions))
        ]
        faults = [name for name in names if name in FAULTS]
        return [*found, *([chosen(faults)] if faults else [])]

    @property
    def has_pipelines(self) -> bool:
        """Return whether pipelines have to store the results."""
        of_them = {fault.name for fault in (*OF_PIPELINES, *OF_SEARCH)}
        return any(each.has_pipelines for each in self.scenarios) or not of_them.isdisjoint(
            _split(self.faults)
        )

    @property
    def has_renderers(self) -> bool:
        """Return whether crawlers with a browser have to run."""
        return any(each.is_rendered for each in self.scenarios)

    @property
    def has_versions(self) -> bool:
        """Return whether the cluster starts with the version before."""
        return any(each.has_versions for each in self.scenarios)

    @property
    def has_shelf(self) -> bool:
        """Return whether the middle of queues has to be on a server of its own."""
        of_it = {fault.name for fault in OF_SHELF}
        return any(each.has_shelf for each in self.scenarios) or not of_it.isdisjoint(
            _split(self.faults)
        )


def problem_of(faults: str, partitions: int = 1) -> str | None:
    """Return the problem with names of faults or scenarios, for this number of partitions."""
    unknown = sorted(set(_split(faults)) - {*SCENARIOS, *FAULTS, "table"})
    if unknown:
        return f"no such fault or scenario: {', '.join(unknown)}; --list shows all of them"
    for name in _split(faults):
        scenario, fault = SCENARIOS.get(name), FAULTS.get(name)
        if scenario and not scenario.fits(partitions):
            number = "one partition" if scenario.partitions == "one" else "several partitions"
            return f"{name} is for {number}: see --partitions"
        if fault and fault.needs_partitions and partitions == 1:
            return f"{name} is for several partitions: see --partitions"
    return None if _split(faults) else "no fault or scenario is named; --list shows all of them"


def _split(names: str) -> list[str]:
    return [name for name in names.split(",") if name]


class ScenarioRunner:
    """Plays scenarios on one cluster until the time is over."""

    def __init__(self, options: Options, console: Console) -> None:
        self._options = options
        self._console = console
        self.outcomes: list[RoundResult] = []

    async def run(self) -> None:
        """Run one round after the other."""
        options, pages = self._options, self._options.pages
        home = default_home().path / "chaos"
        hosts = min(100, max(2, pages // _PAGES_A_HOST))
        self._console.print(f"Starting servers, {WORKERS} crawlers and a site in {home}")
        pipelines = PIPELINES if options.has_pipelines else 0
        cluster = ChaosCluster(
            home,
            pages=pages,
            hosts=hosts,
            workers=WORKERS,
            pipelines=pipelines,
            renderers=RENDERERS if options.has_renderers else 0,
            has_shelf=options.has_shelf,
            partitions=options.partitions,
        )
        if options.has_versions:
            cluster.before = await asyncio.to_thread(before)
        async with cluster:
            until = time.monotonic() + options.seconds
            for number, scenario in enumerate(cycle(options.scenarios)):
                is_first_time = number < len(options.scenarios)
                if time.monotonic() > until and not is_first_time:
                    break
                self.outcomes.append(await self._round(cluster, scenario, number))
                self.report()
                gc.collect()

    async def _round(self, cluster: ChaosCluster, scenario: Scenario, number: int) -> RoundResult:
        seconds = max(self._options.round_seconds, scenario.shortest_s)
        seed = self._options.seed + number
        say = self._say(scenario.name)
        round_ = Round(
            cluster,
            f"{scenario.name}-{number}",
            seed,
            seconds,
            is_long=self._options.is_long,
            say=say,
        )
        with self._bar(round_):
            outcome = replace(await _played(scenario, round_), scenario=scenario.name)
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
        """Quantities that grew from round to round."""
        return list(report.flatness([outcome.footprint for outcome in self.outcomes]))

    @property
    def is_clean(self) -> bool:
        """Return whether no law was broken in any round."""
        return not self.flat and not any(outcome.violations for outcome in self.outcomes)

    def report(self) -> None:
        """Write down what is known so far."""
        options = self._options
        about = {"seed": options.seed, "pages": options.pages, "faults": options.faults}
        about["partitions"] = options.partitions
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


async def _played(scenario: Scenario, round_: Round) -> RoundResult:
    """Play a round; RoundFailed if the cluster, or a command of an operator, failed."""
    try:
        return await scenario.play(round_)
    except* (TimeoutError, RoundFailed, SetupError) as failures:
        why = "; ".join(map(str, leaves_of(failures)))
        raise RoundFailed(f"the round of {scenario.name} could not be played: {why}") from failures


async def run(options: Options, console: Console) -> bool:
    """Run what was asked for, and show and write the report; whether no law was broken."""
    runner = ScenarioRunner(options, console)
    await runner.run()
    report.show(runner.outcomes, runner.flat, console)
    console.print(f"{options.report} has every fault with its time, and every count.")
    return runner.is_clean


def show_names(console: Console) -> None:
    """List all scenarios and faults, each with a line about it."""
    for title, table in (("Scenarios", SCENARIOS), ("Faults", FAULTS)):
        console.print(f"[bold]{title}[/]")
        for name, each in table.items():
            console.print(f"  {name:<22}{each.about}", markup=False, soft_wrap=True)
