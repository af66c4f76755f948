"""Reports and health of proxies, in the shapes of ``lua/proxies.lua``."""

from __future__ import annotations

import random
from collections.abc import Sequence
from struct import Struct
from typing import NamedTuple

from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.proxy_reports import (
    BookAnswer,
    PoolSpend,
    ProxyHealth,
    ProxyNews,
    ProxyOutcome,
    ProxyReport,
)

_HEALTH = Struct("<8d")
"""Leading fields of the record of a proxy; the fields after them are not read."""


class Caller(NamedTuple):
    """The caller, the last news that it has read, and where to continue in the list of rests."""

    call: int
    worker: str
    live_ms: int
    since: str
    page: int


def pack_report(caller: Caller, report: ProxyReport) -> bytes:
    """Return the argument of the operation."""
    return pack(
        [
            *caller,
            [part for each in report.outcomes.items() for part in _outcome(*each)],
            [[rest.proxy, rest.site, rest.ms, rest.steps] for rest in report.rests],
            report.answers,
            [[use.proxy, use.site, use.requests, use.most, use.rest_ms] for use in report.uses],
            [[pool, spend.requests, spend.bytes] for pool, spend in report.spends.items()],
            [[ban.proxy, ban.site, ban.ms] for ban in report.bans],
        ]
    )


def _outcome(proxy: str, outcome: ProxyOutcome) -> list[object]:
    return [
        proxy,
        random.random(),  # noqa: S311  spreads trials
        outcome.answers,
        outcome.refused,
        outcome.path,
        outcome.failed,
        outcome.in_row,
        outcome.is_sure,
        outcome.total_ms / max(outcome.answers, 1),
        "\n".join(outcome.through),
        "\n".join(outcome.lost),
    ]


def unpack_answer(packed: object, pools: Sequence[str]) -> tuple[str, int, BookAnswer]:
    """Return the place of the last news, the next page of rests, and the answer.

    ``pools`` are the pools of the report, in its order.
    """
    now, since, page, is_more, news, workers, place, day, sums = unpack(packed)
    spent = zip(sums[::2], sums[1::2], strict=True)
    answer = BookAnswer(
        news=[_news(one, now) for one in news],
        is_more=is_more,
        workers=workers,
        place=place,
        day=day,
        spent={pool: PoolSpend(*each) for pool, each in zip(pools, spent, strict=True)},
    )
    return since.decode(), page, answer


def _news(packed: bytes, now: float) -> ProxyNews:
    kind, proxy, site, until_ms, number = unpack(packed)
    site_name = site.decode(errors="replace")
    return ProxyNews(kind.decode(), proxy.decode(), site_name, (until_ms - now) / 1000, number)


def unpack_health(packed: bytes) -> ProxyHealth:
    """Return the health of one proxy."""
    score, answers, refused, path, failed, ms, in_row, times = _HEALTH.unpack_from(packed)
    return ProxyHealth(
        score=score,
        answers=int(answers),
        refused=int(refused),
        path=int(path),
        failed=int(failed),
        mean_ms=ms,
        in_row=int(in_row),
        times_out=int(times),
    )
