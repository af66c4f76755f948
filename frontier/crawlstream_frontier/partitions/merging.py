"""Merges the answers of several partitions: sums, maxima, unions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.partitions.messages import Look, RegisteredRun
from crawlstream.model.state import CrawlState, DomainBacklog, FrontierState
from crawlstream.model.statuses import PAGE_ENDS, UNDER_WAY, UNFINISHED

_BESIDE_NAME = 60
"""Bytes of a listed domain without its name."""
_LEDGER = (
    *("admitted", *UNFINISHED, "spilled", "shelved"),
    *(*PAGE_ENDS, "body_bytes"),
)
_COUNTS = (
    *(*UNFINISHED, "spilled", "shelved", "shelf_chunks"),
    *("outbox", "actions", "residual"),
)


def merge_crawl(
    parts: Sequence[CrawlState], missing: Collection[int], *, listed_bytes: int
) -> CrawlState:
    """Merge one crawl from the partitions that have it, ``parts``; the first is the coordinator's.

    Its latest run is the largest number in any of them; a partition with an earlier one
    has no pages of it yet. ``listed_bytes``: size limit of its domains in an answer.
    """
    run = max(part.run for part in parts)
    now = [part for part in parts if part.run == run]
    head = now[0]
    domains, is_cut = _listed([each for part in parts for each in part.domains], listed_bytes)
    return replace(
        head,
        state=_state([part.state for part in now]),
        started_at=min(part.started_at for part in now),
        last_activity=max(part.last_activity for part in now),
        expires=max(part.expires for part in now),
        paused_until=max(part.paused_until for part in now),
        **{name: sum(getattr(part, name) for part in now) for name in _LEDGER},
        counted=sum(part.counted for part in parts),
        done_by_status=_sum(part.done_by_status for part in now),
        failed_by_reason=_sum(part.failed_by_reason for part in now),
        skipped_by_reason=_sum(part.skipped_by_reason for part in now),
        filtered_by_reason=_sum(part.filtered_by_reason for part in now),
        spent_domains=_sum(part.spent_domains for part in now),
        charged=_sum(part.charged for part in now),
        refused_by_family=_sum(part.refused_by_family for part in now),
        domains=domains,
        is_cut=is_cut or any(part.is_cut for part in parts),
        lanes=tuple(sorted({lane for part in parts for lane in part.lanes})),
        missing_partitions=tuple(sorted(missing)),
    )


def with_latest_run(state: CrawlState | None, crawl: CrawlKey, said: RegisteredRun) -> CrawlState:
    """Return a crawl with the latest run and state of its coordinator.

    ``state`` is merged from partitions, None: no data; counters of an earlier run do not count for
    the latest, of which no partition has pages yet. A coordinator that has gone back knows less.
    """
    if state is not None and state.run > said.run:
        return state
    if state is None or state.run < said.run:
        empty: dict[str, Any] = dict.fromkeys(("last_activity", *_LEDGER), 0)
        missing = state.missing_partitions if state else ()
        state = CrawlState(
            crawl=crawl,
            run=said.run,
            state=said.state,
            started_at=0,
            expires=said.expires,
            missing_partitions=missing,
            **empty,
        )
    return replace(
        state,
        state=said.state,
        paused_until=said.paused_until or 0,
        expires=said.expires,
        remember=said.remember,
        budgets=said.budgets,
    )


def in_transit(looks: Mapping[int, tuple[Look, Collection[str]]]) -> int:
    """Return the number of unread records that a context of the looks still needs.

    ``looks``: of each partition, with the topics of requests; any other topic has links.
    """
    needed = Counter[int]()
    for look, _ in looks.values():
        for q, offset in look.reports[0].need.items():
            needed[q] = max(needed[q], offset)
    waiting = 0
    for q, (look, requests) in looks.items():
        read = [
            at
            for (topic, number), at in look.positions.items()
            if number == q and topic not in requests
        ]
        waiting += max(needed[q] - max(read, default=0), 0)
    return waiting


def merge_frontier(
    parts: Mapping[int, FrontierState],
    missing: Collection[int],
    *,
    crawls: int,
    workers: int,
    servers: Sequence[str],
) -> FrontierState:
    """The counters of all partitions that answered.

    ``crawls`` is the number of running runs by their coordinators, ``workers`` the number
    registered in any; ``servers`` has the server of each partition: the memory of one counts once.
    """
    states = [parts[p] for p in sorted(parts)]
    by_server = {servers[p]: parts[p] for p in sorted(parts)}.values()
    limits = [state.memory_limit for state in by_server]
    return replace(
        states[0],
        life=max(state.life for state in states),
        clock_ms=max(state.clock_ms for state in states),
        rules_known=all(state.rules_known for state in states),
        crawls=crawls,
        workers=workers,
        memory_used=sum(state.memory_used for state in by_server),
        memory_limit=sum(limits) if all(limits) else 0,
        is_full=any(state.is_full for state in states),
        **{name: sum(getattr(state, name) for state in states) for name in _COUNTS},
        backlog=_backlog(state.backlog for state in states),
        missing_partitions=tuple(sorted(missing)),
    )


def _state(states: Sequence[str]) -> str:
    """Return the state of a run while partitions may have different states of it.

    A pause or stop counts as soon as any partition has it; a run is over when it is everywhere.
    """
    for state in ("paused", *reversed(UNDER_WAY), "running"):
        if state in states:
            return state
    return states[0]


def _sum(counters: Iterable[Mapping[str, int]]) -> Mapping[str, int]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return dict(total)


def _backlog(parts: Iterable[Mapping[str, Mapping[str, int]]]) -> Mapping[str, Mapping[str, int]]:
    total: dict[str, Counter[str]] = {}
    for part in parts:
        for spider, counts in part.items():
            total.setdefault(spider, Counter()).update(counts)
    return {spider: dict(total[spider]) for spider in sorted(total)}


def _listed(
    domains: Sequence[DomainBacklog], listed_bytes: int
) -> tuple[Sequence[DomainBacklog], bool]:
    """Return as many domains as there is room for, and whether some were left out."""
    for number, domain in enumerate(domains):
        listed_bytes -= len(domain.domain) + _BESIDE_NAME
        if listed_bytes < 0:
            return domains[:number], True
    return domains, False
