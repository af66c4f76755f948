"""Problems that need attention, each with its remedy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from crawlstream.model.process import Process
from crawlstream.model.state import CrawlState
from crawlstream.model.words.condition import IF_MISSPELT, Spiders, absence
from crawlstream_frontier.partitions import problem
from crawlstream_frontier.partitions.problem import KAFKA_DOWN, start_command
from rest_service.service import Service


class ProblemNote(NamedTuple):
    """A sentence, a command that solves the problem, and a screen with more; both may be empty."""

    text: str
    command: str = ""
    path: str = ""


REDIS_AWAY = ProblemNote("Redis does not answer: these values are out of date.")


def absences(crawls: Sequence[CrawlState], spiders: Spiders) -> list[ProblemNote]:
    """Return a note per spider without a crawler that crawls wait for, most crawls first."""
    lacking = (one.lacking(spiders) for one in crawls) if spiders is not None else ()
    waiting = Counter(spider for each in lacking for spider in each).most_common()
    return [
        ProblemNote(
            f"{absence(spider, spiders=spiders)}, so {_crawls(count)}. {IF_MISSPELT}",
            command=start_command(spider),
            path="/ui/crawls?state=running",
        )
        for spider, count in waiting
    ]


def problems_of(service: Service, processes: Sequence[Process] | None) -> list[ProblemNote]:
    """Return all known problems of the cluster."""
    notes = [] if service.reach.kafka else [ProblemNote(KAFKA_DOWN.text, path="/ui/processes")]
    if processes is None or service.sampler.is_blind or not service.sampler.samples:
        return [*notes, REDIS_AWAY]
    state = service.sampler.samples[-1].state
    found = problem.problems_of(state, processes)
    return notes + [ProblemNote(one.text, one.command, _path_of(one)) for one in found]


def _path_of(one: problem.Problem) -> str:
    """Return the screen that shows more about a problem."""
    if one.code.startswith("no_crawler:"):
        return "/ui/crawls?state=running"
    return (
        "/ui/processes" if one.code.startswith("no_") and one.command else _PATHS.get(one.code, "")
    )


_PATHS = {"versions": "/ui/processes", "no_rules": "/ui/domains"}


def _crawls(count: int) -> str:
    return "a crawl waits" if count == 1 else f"{count} crawls wait"
