"""Ledgers, backlogs and counters of the frontier, as values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from crawlstream.model.state import CrawlState, DomainBacklog, FrontierState
from crawlstream_frontier.codec.values import crawl_from

REASONS = {
    "done": "n",
    "failed": "f",
    "skipped": "k",
    "filtered": "z",
    "charged": "p",
    "dropped": "d",
    "reserved": "r",
    "refused": "w",
    "spent_domains": "b",
}
"""Letters of the counters by reason of a crawl record."""
ANSWERS = "a"
"""Letter of the replies about pages that are to come, by the ``uuid`` of the client."""
SUMMED = (*REASONS.values(), ANSWERS)
"""Letters of the counters that are added up over partitions."""


BUDGETS = ("max_bytes", "max_failed_share")
"""Budgets that a crawl record has, in their order."""


def by_reason(fields: Mapping[str, str], kind: str) -> dict[str, int]:
    """Return the counters ``<kind>:<reason>`` of a crawl record, by reason."""
    prefix = kind + ":"
    return {
        field.removeprefix(prefix): int(value)
        for field, value in fields.items()
        if field.startswith(prefix)
    }


_as_backlog = partial(tuple.__new__, DomainBacklog)
"""``DomainBacklog._make`` without a Python frame for each of 100 000 calls."""


def backlog(listed: Sequence[Any], blocked: Iterable[str]) -> dict[str, DomainBacklog]:
    """Return the backlogs of a crawl by domain.

    ``listed`` is a flat list: name, total, high and low priority of each domain.
    """
    names, totals, highs, lows = (listed[column::4] for column in range(4))
    is_blocked = map(frozenset(blocked).__contains__, names)
    columns = zip(names, totals, highs, lows, is_blocked, strict=True)
    return dict(zip(names, map(_as_backlog, columns), strict=True))


def lanes(spiders: Iterable[str]) -> tuple[str, ...]:
    """Return the sorted names of spiders, from their form in keys."""
    return tuple(sorted(map(unquote, spiders)))


def frontier_state(answer: Sequence[Any]) -> FrontierState:
    """Return the counters of the frontier."""
    life, clock_ms, rules_known, crawls, queued, delayed, held, *rest = answer
    workers, outbox, actions, memory_used, memory_limit, is_full, residual, *rest = rest
    spilled, spiders, shelved, shelf_chunks = rest
    domains = zip(spiders[::2], spiders[1::2], strict=True)
    return FrontierState(
        life=life,
        clock_ms=clock_ms,
        rules_known=rules_known,
        crawls=crawls,
        queued=queued,
        delayed=delayed,
        held=held,
        workers=workers,
        outbox=outbox,
        actions=actions,
        memory_used=int(memory_used),
        memory_limit=int(memory_limit),
        is_full=bool(is_full),
        residual=residual,
        spilled=spilled,
        shelved=shelved,
        shelf_chunks=shelf_chunks,
        backlog={unquote(name.decode()): {"domains": n} for name, n in sorted(domains)},
    )


def _budgets(text: str) -> dict[str, float]:
    """Return the budgets of a crawl record, without those that are not set."""
    values = map(float, text.split())
    return {name: value for name, value in zip(BUDGETS, values, strict=False) if value}


def crawl_state(fields: Mapping[str, str], domains: Sequence[DomainBacklog]) -> CrawlState:
    """Return the record of a crawl and its domains as a value."""

    def number(field: str) -> int:
        return int(fields.get(field, 0))

    return CrawlState(
        crawl=crawl_from(fields["name"].encode()),
        run=number("run"),
        state="paused" if "paused" in fields else fields["state"],
        paused_until=number("paused_until"),
        started_at=number("started") / 1000,
        last_activity=number("active") / 1000,
        expires=number("expires"),
        remember=number("remember") if "remember" in fields else None,
        budgets=_budgets(fields.get("budgets", "")),
        counted=number("counted"),
        admitted=number("admitted"),
        queued=number("queued"),
        delayed=number("delayed"),
        held=number("held"),
        spilled=number("spilled"),
        shelved=number("shelved"),
        done=number("done"),
        failed=number("failed"),
        redirected=number("redirected"),
        skipped=number("skipped"),
        stopped=number("stopped"),
        expired=number("expired"),
        body_bytes=number("bytes"),
        done_by_status=by_reason(fields, "n"),
        failed_by_reason=by_reason(fields, "f"),
        skipped_by_reason=by_reason(fields, "k"),
        filtered_by_reason=by_reason(fields, "z"),
        charged=by_reason(fields, "p"),
        refused_by_family=by_reason(fields, "w"),
        spent_domains=by_reason(fields, "b"),
        domains=domains,
    )
