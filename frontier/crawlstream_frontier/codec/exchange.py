"""Request and answer of a worker's exchange, in the shapes of ``lua/exchange.lua``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import structlog

from crawlstream.keys import encode_id
from crawlstream.model.crawl import CrawlKey, FiringKey, Lease, Profile
from crawlstream.model.effects import Release, Requeue, SentRequest, Settle
from crawlstream.model.partitions.messages import ContextKey, LinkOrigin, Version
from crawlstream.model.web.throttle_groups import GATE
from crawlstream.wire import stored
from crawlstream_frontier.codec.entries import (
    hash_of_profile,
    is_marked,
    profile_from,
    split_entry,
)
from crawlstream_frontier.codec.links import Inheritance, Metered, domain_of, metered_of
from crawlstream_frontier.codec.schedules import firing_from
from crawlstream_frontier.codec.values import crawl_from, mapping, none_as, unpack

_WITH_CONTEXT = 5
"""Minimum number of fields of a crawl that is a context of several partitions."""
RETRY_PRIORITY_STEP = -10
"""Change of priority with each retry."""

_GATE = GATE.encode()

log = structlog.get_logger()


class ExchangeAnswer(NamedTuple):
    """Answer of ``exchange.lua``; see its header."""

    granted: Sequence[Any]
    lots: Sequence[Any]
    crawls: Any
    profiles: Any
    stale: Sequence[bytes]
    redis_epoch: int
    next_due_ms: int
    """-1: no entry is waiting."""
    rules_known: bool
    repeat: Sequence[bytes]
    """Tokens of settles to repeat with all of their links, because Redis has restarted."""
    refused: Sequence[bytes]
    crowded: int
    """-1: not checked."""
    capped: Sequence[bytes]
    """Tokens of settles with links that a page limit did not admit."""
    sites_version: bytes
    """Version of the map of sites, if hosts are divided by it."""
    unconfirmed: Sequence[Any]
    """As ``unpack_questions`` takes them."""
    date_ms: int
    gentle: Sequence[bytes] = ()
    """Domains of the leases whose rules are gentle."""
    spent: Sequence[Any] = ()
    """Number of the crawl, domain and budget, of domains that have spent one."""
    trusted: Sequence[Any] = ()
    """Number of the crawl and domain, of trusted ones in crawls with a host budget."""

    @classmethod
    def unpack(cls, packed: object) -> Self:
        """Return the fields of a packed answer."""
        return cls(*unpack(packed))


class LeaseResult(NamedTuple):
    """Leases that a call was granted."""

    leases: list[Lease]
    inheritances: Mapping[str, Inheritance]
    """Inheritance of the children of each lease, by token."""


def pack_ends(settles: Iterable[tuple[Settle, Metered | None]]) -> list[object]:
    """Pack settles without links: lists of tokens, sends and bytes by outcome and reason.

    Those of domains with budgets are also apart by these.
    """
    groups: dict[tuple[str, str, Metered | None], tuple[list[str], list[int], list[int]]] = {}
    for settle, metered in settles:
        kind = (settle.outcome.value, next(iter(settle.refused), settle.reason), metered)
        tokens, sent, sizes = groups.setdefault(kind, ([], [], []))
        tokens.append(settle.token)
        sent.append(none_as(settle.sent_ms))
        sizes.append(settle.body_bytes)
    return [
        [*kind, *columns, *([metered] if metered else ())]
        for (*kind, metered), columns in groups.items()
    ]


def unpack_leases(
    answer: ExchangeAnswer, spiderid: str, *, call: int, issued_at: float, partition: int = 0
) -> LeaseResult:
    """Return the leases that a call was granted, and the inheritance of their children.

    An entry that cannot be read (another version wrote it) is left out and logged. No worker
    reports on its lease, so it is revoked, and another worker may be able to read the entry.
    """
    lots = list(zip(answer.lots[::2], answer.lots[1::2], strict=True))
    runs = _runs_in(answer)
    packed, known = mapping(answer.profiles), dict[bytes, Profile]()
    origins, gentle = _Origins(answer, spiderid), frozenset(answer.gentle)
    spent, trusted = _spent_in(answer), {*zip(*[iter(answer.trusted)] * 2, strict=True)}
    leases, inherited = [], {}
    for place, lot, domain, entry in zip(*[iter(answer.granted)] * 4, strict=True):
        c, priority = lots[lot - 1]
        site, at, gate = domain.partition(_GATE)
        crawl, run, recovered, firing = runs[c]
        token = f"{call}-{abs(place)}"
        try:
            retries, number, body = split_entry(entry)
            where = b"%s/%d" % (c, number)
            profile = known.get(where) or known.setdefault(where, profile_from(packed[where]))
            kept = stored.decode_entry(body)
        except ValueError:
            log.exception("lease", outcome="unreadable", token=token)
            continue
        inherited[token] = Inheritance(
            *(c, run, number, profile.domain_max_pages, profile.max_pages),
            origins.of(c, where, crawl, profile),
            metered_of(profile, kept.url),
        )
        leases.append(
            Lease(
                token=token,
                crawl=crawl,
                run=run,
                domain=site.decode(),
                priority=priority,
                entry=kept,
                profile=profile,
                retries=retries,
                issued_at=issued_at,
                partition=partition,
                recovered=recovered,
                firing=firing,
                is_gentle=site in gentle,
                gate=(at + gate).decode(),
                is_marked=is_marked(entry),
                spent_budget=spent.get((c, domain_of(kept.url)), "") if spent else "",
                is_trusted=bool(trusted) and (c, domain_of(kept.url).encode()) in trusted,
                is_spare=place < 0,
            )
        )
    return LeaseResult(leases, inherited)


def _runs_in(
    answer: ExchangeAnswer,
) -> Mapping[bytes, tuple[CrawlKey, int, bool, FiringKey | None]]:
    """Return crawl, run, whether it began again, and latest firing, by number of the crawl."""
    return {
        c: (crawl_from(name), run, bool(recovered), firing_from(occasion))
        for c, (name, run, recovered, occasion, *_) in mapping(answer.crawls).items()
    }


def _spent_in(answer: ExchangeAnswer) -> Mapping[tuple[bytes, str], str]:
    """Return the spent budgets by number of the crawl and domain."""
    listed = zip(*[iter(answer.spent)] * 3, strict=True)
    return {(c, domain.decode()): budget.decode() for c, domain, budget in listed}


class _Origins:
    """Origins of links to other partitions; there are none with one partition."""

    def __init__(self, answer: ExchangeAnswer, spiderid: str) -> None:
        self._crawls = mapping(answer.crawls)
        self._profiles = mapping(answer.profiles)
        self._spiderid = spiderid
        self._known: dict[bytes, LinkOrigin] = {}

    def of(self, c: bytes, where: bytes, crawl: CrawlKey, profile: Profile) -> LinkOrigin | None:
        if len(self._crawls[c]) < _WITH_CONTEXT:
            return None
        known = self._known.get(where)
        if known is None:
            *_, generation, redis_epoch, number = self._crawls[c]
            known = self._known[where] = LinkOrigin(
                context=ContextKey(crawl, generation),
                version=Version(redis_epoch, number),
                spiderid=self._spiderid,
                profile=hash_of_profile(self._profiles[where]),
                domain_max_pages=profile.domain_max_pages,
                max_pages=profile.max_pages,
            )
        return known


def pack_sent(sent: SentRequest) -> list[object]:
    """Pack a sent request, with the reaction of the site if it is known."""
    told = [sent.token, sent.after_ms, sent.received]
    if (heard := sent.heard) is None:
        return told
    told += [heard.reaction.value, heard.wait_ms, heard.until_ms]
    return told if sent.first_byte_ms is None else [*told, sent.first_byte_ms]


def pack_requeue(requeue: Requeue) -> list[object]:
    """Pack the retry of a page whose download failed."""
    return [requeue.token, requeue.delay_ms, none_as(requeue.sent_ms), RETRY_PRIORITY_STEP]


def pack_release(release: Release) -> list[object]:
    """Pack the release of a page."""
    sent_ms, pauses = none_as(release.sent_ms), (release.crawl_delay_ms, release.rest_ms)
    packed = [release.token, release.delay_ms, sent_ms, release.robots, *pauses]
    if release.spiderid is not None:
        return [*packed, "", release.priority, release.gate, encode_id(release.spiderid)]
    if release.gate is not None:
        return [*packed, "", release.priority, release.gate]
    return packed if release.priority is None else [*packed, "", release.priority]
