"""Inspection of one page or one domain from the exact structures, in bounded work.

Of a finished page the frontier only knows that it was seen: its outcome is a count in the
ledger, and a record on the topics of results and events.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import unquote

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import (
    CrawlQueueReport,
    DomainReport,
    PagePlace,
    PageReport,
    QueueReport,
    Sighting,
    UrlReport,
)
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable, site_of
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire import stored
from crawlstream_frontier.codec.entries import listed_as, split_entry
from crawlstream_frontier.codec.rules import gate_of
from crawlstream_frontier.codec.values import crawl_from, unpack
from crawlstream_frontier.link_rules.host_budgets import in_words
from crawlstream_frontier.queries import FrontierQueries
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.shelves.stocking import Stocking
from crawlstream_frontier.throttle_rules import ThrottleRules

MOST_ENTRIES = 5_000
"""Entries read in one crawl and domain: keeps the script near 5 ms."""
MOST_WORKERS = 200
MOST_CRAWLS = 200
"""Crawls searched for a page if none is named."""
MOST_QUEUES = 100
_PHASES = ("granted", "sent", "received", "spare")


class Inspector:
    """Answers questions about single pages and domains; changes nothing."""

    def __init__(self, scripts: Scripts, stocking: Stocking) -> None:
        """``stocking`` reads what is on the shelf."""
        self._scripts = scripts
        self._stocking = stocking
        self._queries = FrontierQueries(scripts)
        self._rules = ThrottleRules(scripts)

    async def crawls(self, most: int) -> Sequence[CrawlKey]:
        """Return up to ``most`` known crawls."""
        with our_errors():
            _, names = await self._scripts.redis.hscan(self._scripts.keys.names(), 0, count=most)
        return [crawl_from(name) for name in sorted(names)][:most]

    async def page(self, crawl: CrawlKey, url: str) -> PageReport | None:
        """Return the state of a page (a GET of an address) in a crawl; None: unknown crawl."""
        mark = fingerprint(url)
        name, domain = FrontierKeys.crawl_field(crawl), domain_key(host_of(url))
        table = await self._rules.table()
        site = site_of(table, url)
        args = (name, domain, mark, MOST_ENTRIES, MOST_WORKERS, site)
        answer = unpack(await self._scripts.run("inspect", *args))
        state = await self._queries.crawl_state(crawl, with_domains=False)
        if not answer or state is None:
            return None
        run, run_state, is_known, *places, is_complete, is_listed, standing = answer
        places[0] = [(*place[:4], await self._entries(*place[4:])) for place in places[0]]
        is_complete &= all(len(place[4]) == place[3] for place in places[0])
        queued = _queued(places[0], mark, is_listed=is_listed)
        sightings = [*_held(places[2], mark), *queued, *_delayed(places[1], mark)]
        return PageReport(
            crawl=crawl,
            run=run,
            state=run_state.decode(),
            where=_verdict(
                sightings, is_known=is_known, is_complete=is_complete, spilled=state.spilled
            ),
            sightings=sightings,
            looked_at=sum(len(place[4]) for place in places[0]) + sum(map(len, places[1:])),
            failed_by_reason=state.failed_by_reason,
            filtered_by_reason=state.filtered_by_reason,
            host_budget=in_words(standing, [one.priority for one in sightings]),
        )

    async def _entries(
        self, head: Sequence[bytes], chunks: Sequence[Any], tail: Sequence[bytes]
    ) -> Sequence[bytes]:
        """Return the entries of a band in their order, up to a chunk that cannot be read now."""
        entries = [*head]
        for id_, _, kept in zip(*[iter(chunks)] * 3, strict=True):
            chunk = await self._stocking.read(id_, kept)
            if chunk is None:
                return entries
            entries += chunk
        return [*entries, *tail]

    async def url(
        self,
        url: str,
        crawls: Sequence[CrawlKey],
        *,
        with_never: bool = False,
        with_domain: bool = True,
    ) -> UrlReport:
        """Return the state of a page in the first ``MOST_CRAWLS`` of these crawls, and its limits.

        Unknown crawls are left out, and, unless ``with_never``, those that never admitted it.
        """
        asked = crawls[:MOST_CRAWLS]
        found = [await self.page(crawl, url) for crawl in asked]
        table = await self._table(host_of(url)) if with_domain else None
        site = site_of(table, url)
        return UrlReport(
            url=url,
            crawls=[p for p in found if p and (with_never or p.where is not PagePlace.NEVER)],
            domain=await self.domain(site) if with_domain else None,
            asked=len(asked),
            is_cut=len(crawls) > len(asked),
        )

    async def _table(self, _host: str) -> ThrottleTable | None:
        """Return the rules for a host; None: there are none."""
        return await self._rules.table()

    async def domain(self, domain: str, view: str = "") -> DomainReport:
        """Return a domain's rule, state and waiting entries.

        ``view`` is ``spider[@group]``, whose limits are returned if views have limits of their own.
        """
        spider, at, group = view.partition("@")
        name = encode_id(spider) + at + encode_id(group)
        answer = unpack(await self._scripts.run("survey", domain, MOST_QUEUES, name))
        rule, unreported, under_way, not_before_ms, next_ms, queues, kept_for, *more = answer
        mean_ms, floor_ms, gentle_ms = map(int, more[:3])
        strikes, silences, unanswered_ms, crawl_delay_ms, rests = map(int, more[4:])
        applied = ThrottleRule.of_applied(rule.decode()) if rule else None
        gate = gate_of(*more[3]) if more[3] else None
        paused_ms = 1000 * (applied.paused_until - time.time()) if applied else 0
        return DomainReport(
            domain=domain,
            rule=applied,
            unreported=int(unreported),
            under_way=int(under_way),
            not_before_ms=int(not_before_ms),
            next_ms=max(int(next_ms), int(paused_ms), gate.next_ms if gate else 0),
            strikes=strikes,
            silences=silences,
            unanswered_ms=unanswered_ms,
            crawl_delay_ms=crawl_delay_ms,
            is_outside_hours=bool(rests),
            latency_ms=mean_ms,
            lowest_latency_ms=floor_ms,
            gentle_ms=gentle_ms,
            gate=gate,
            queues=[_queue(queue) for queue in queues],
            kept_for="@".join(map(unquote, kept_for.decode().split("@"))),
        )


def _verdict(
    sightings: Sequence[Sighting], *, is_known: bool, is_complete: bool, spilled: int
) -> PagePlace:
    if sightings:
        return sightings[0].where
    if not is_known:
        return PagePlace.SPILLED if spilled else PagePlace.NEVER
    return PagePlace.SEEN if is_complete else PagePlace.UNSURE


def _page_of(entry: bytes, mark: str) -> dict[str, Any] | None:
    """Return address and attempt of an entry if it is the page with this fingerprint."""
    retries, _, body = split_entry(entry)
    try:
        kept = stored.decode_entry(body)
    except ValueError:
        return None
    found = fingerprint(kept.url, kept.method, kept.body or b"", kept.salt or "")
    return {"url": kept.url, "attempt": retries + 1} if found == mark else None


def _queued(queues: Sequence[Any], mark: str, *, is_listed: bool) -> Iterator[Sighting]:
    """Yield the places of a page; of the entries of a page with a score only the first counts."""
    ahead: dict[bytes, int] = {}
    for spider, priority, _, length, entries in queues:
        for place, entry in enumerate(entries):
            page = _page_of(entry, mark)
            if page is not None and listed_as(entry):
                page, is_listed = page if is_listed else None, False
            if page is not None:
                yield Sighting(
                    where=PagePlace.QUEUED,
                    spiderid=unquote(spider.decode()),
                    priority=priority,
                    place=place + 1,
                    ahead=ahead.get(spider, 0) + place,
                    **page,
                )
        ahead[spider] = ahead.get(spider, 0) + length


def _delayed(entries: Sequence[Any], mark: str) -> Iterator[Sighting]:
    for spider, due_ms, priority, entry in entries:
        page = _page_of(entry, mark)
        if page is not None:
            yield Sighting(
                where=PagePlace.DELAYED,
                spiderid=unquote(spider.decode()),
                priority=priority,
                due_ms=max(int(due_ms), 0),
                **page,
            )


def _held(leases: Sequence[Any], mark: str) -> Iterator[Sighting]:
    for worker, _, since_ms, flags, spider, priority, entry in leases:
        page = _page_of(entry, mark)
        if page is not None:
            yield Sighting(
                where=PagePlace.HELD,
                spiderid=unquote(spider.decode()),
                priority=priority,
                worker=worker.decode(),
                held_ms=int(since_ms),
                phase=_PHASES[flags],
                **page,
            )


def _queue(queue: Sequence[Any]) -> QueueReport:
    spider, place, due_ms, bands, flat = queue
    return QueueReport(
        spiderid=unquote(spider.decode()),
        place=place.decode(),
        due_ms=None if due_ms < 0 else int(due_ms),
        bands=bands,
        first=[
            CrawlQueueReport(
                crawl=crawl_from(name) if name else None, standing=standing, queued=queued
            )
            for name, standing, queued in zip(*[iter(flat)] * 3, strict=True)
        ],
    )
