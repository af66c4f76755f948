"""Problems of a cluster, each with its remedy: one list for notices and the dashboard."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from crawlstream.called import COMMAND
from crawlstream.model.process import Process
from crawlstream.model.state import FrontierState
from crawlstream.model.words.condition import IF_MISSPELT, absence

_NEEDED = ("kafka-monitor", "redis-monitor")


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem in one sentence, and the command that ends it, where there is one."""

    code: str
    text: str
    command: str = ""
    is_notified: bool = True
    """True if notices about it are sent."""


KAFKA_DOWN = Problem("kafka_down", "Kafka does not answer.")
REDIS_DOWN = Problem("redis_down", "Redis does not answer.")


def start_command(spider: str) -> str:
    """Return the command that starts a crawler of a spider."""
    return f"{COMMAND} up -d --spider {shlex.quote(spider)}=1"


def problems_of(state: FrontierState, processes: Sequence[Process]) -> list[Problem]:
    """Return the problems that counters and living processes show."""
    return [*_of_processes(state, processes), *_of_counters(state)]


def _of_processes(state: FrontierState, processes: Sequence[Process]) -> list[Problem]:
    kinds = {one.kind for one in processes}
    spiders = {one.spider for one in processes if one.kind == "crawler"}
    up = f"{COMMAND} up -d"
    found = [
        Problem(f"no_{kind.replace('-', '_')}", f"No {kind} is running.", up)
        for kind in _NEEDED
        if kind not in kinds
    ]
    backlog = {spider: told.get("domains", 0) for spider, told in sorted(state.backlog.items())}
    lacking = {spider: count for spider, count in backlog.items() if count}
    found += [
        Problem(
            f"no_crawler:{spider}",
            f"{absence(spider, spiders=spiders)}, but pages of {count} domain{'s' * (count != 1)}"
            f" wait. {IF_MISSPELT}",
            start_command(spider),
        )
        for spider, count in lacking.items()
        if spider not in spiders
    ]
    if not spiders and not lacking:
        found.append(Problem("no_crawler", "No crawler is running.", up, is_notified=False))
    if len(versions := sorted({one.version for one in processes})) > 1:
        told = f"Processes run different versions: {', '.join(versions)}."
        found.append(Problem("versions", told, is_notified=False))
    return found


def _of_counters(state: FrontierState) -> list[Problem]:
    found = []
    if not state.rules_known:
        told = "No throttle rules are known, so nothing is fetched: see ZooKeeper."
        found.append(Problem("no_rules", told))
    if state.missing_partitions:
        numbers = ", ".join(map(str, state.missing_partitions))
        told = f"Partitions of the frontier do not answer: {numbers}. Their domains rest."
        found.append(Problem("partition_down", told, f"{COMMAND} status"))
    if state.is_full:
        found.append(Problem("redis_full", "Redis is full: seeds wait in Kafka."))
    if state.residual:
        told = f"The ledger does not balance: {state.residual} pages are unaccounted for."
        found.append(Problem("ledger", f"{told} Please report this bug."))
    return found
