"""What a person should look after, each with what ends it."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from crawlstream.model.process import Process
from crawlstream.model.state import CrawlState
from rest_service.service import Service

_NEEDED = ("kafka-monitor", "redis-monitor", "crawler")
_UP = "./crawlstream up -d"

Spiders = frozenset[str] | None
"""Names of those that have a living crawler; None: nobody knows."""


class Problem(NamedTuple):
    """One sentence, what to type against it, and where to see more; what is empty there is not."""

    text: str
    command: str = ""
    path: str = ""


REDIS_AWAY = Problem("Redis does not answer: these values are out of date.")


def spiders_of(processes: Sequence[Process] | None) -> Spiders:
    """The spiders that crawl."""
    if processes is None:
        return None
    return frozenset(one.spider for one in processes if one.kind == "crawler")


def condition(one: CrawlState, spiders: Spiders) -> str:
    """The state of a crawl in words: one that nobody works on does not run, whatever it is."""
    spider = one.crawl.spiderid
    if one.state != "running" or not one.pending or spiders is None or spider in spiders:
        return one.state
    return f"waiting: no crawler of {spider}"


def start_command(spider: str) -> str:
    """What starts a crawler of a spider."""
    return f"{_UP} --spider {shlex.quote(spider)}=1"


def absences(crawls: Sequence[CrawlState], spiders: Spiders) -> list[Problem]:
    """The spiders that crawls wait for, most crawls first."""
    waiting = Counter(
        one.crawl.spiderid for one in crawls if condition(one, spiders) != one.state
    ).most_common()
    return [
        Problem(
            f"No crawler of spider {spider} is running, so {_crawls(count)}.",
            command=start_command(spider),
            path="/ui/crawls?state=running",
        )
        for spider, count in waiting
    ]


def problems_of(service: Service, processes: Sequence[Process] | None) -> list[Problem]:
    """Everything that is wrong with the cluster, as far as it shows."""
    problems = []
    if not service.reach.kafka:
        problems.append(Problem("Kafka does not answer.", path="/ui/processes"))
    if processes is None or service.sampler.is_blind or not service.sampler.samples:
        return [*problems, REDIS_AWAY]
    state = service.sampler.samples[-1].state
    there = {one.kind for one in processes}
    problems += [
        Problem(f"No {kind} is running.", command=_UP, path="/ui/processes")
        for kind in _NEEDED
        if kind not in there
    ]
    if not state.rules_known:
        problems.append(Problem("No throttle rules are known yet, so nothing is fetched."))
    if "crawler" in there:
        problems += absences(service.sampler.crawls, spiders_of(processes))
    if state.is_full:
        problems.append(Problem("Redis is full: seeds stay in Kafka."))
    if state.residual:
        told = f"The ledger does not balance: {state.residual} pages are unaccounted for."
        problems.append(Problem(f"{told} Please report this bug."))
    if len(versions := sorted({one.version for one in processes})) > 1:
        told = f"Processes run different versions: {', '.join(versions)}."
        problems.append(Problem(told, path="/ui/processes"))
    return problems


def _crawls(count: int) -> str:
    return "a crawl waits" if count == 1 else f"{count} crawls wait"
