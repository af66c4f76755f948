"""URLs of pages that wait in one partition, in bounded steps between which it is free."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey, Entry
from crawlstream.wire import stored
from crawlstream_frontier.codec.entries import listed_as, split_entry
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.shelves.stocking import Stocking
from crawlstream_frontier.throttle_rules import ThrottleRules

CRAWLS_PER_CALL, SITES_PER_CALL = 16, 8
"""Crawls and sites of a domain that a script looks for."""


class WaitingUrls(NamedTuple):
    """URLs that one step has found."""

    urls: Sequence[str]
    unread: int = 0
    """Pages on a shelf that does not answer."""


class WaitingPages:
    """Lists pages that wait; changes nothing. Every method raises RedisUnavailable."""

    def __init__(self, scripts: Scripts, stocking: Stocking) -> None:
        """``stocking`` reads what is on the shelf."""
        self._scripts = scripts
        self._stocking = stocking
        self._rules = ThrottleRules(scripts)

    async def urls(self, crawls: Sequence[CrawlKey], domain: str) -> AsyncIterator[WaitingUrls]:
        """Yield the URLs that these crawls request with GET at a domain and its hosts.

        A step takes some 60 entries. A page that waits until the end is among them, perhaps twice;
        pages whose links wait in Kafka are not.
        """
        table = await self._rules.table()
        parted = [name for name, of in table.parted().items() if of == domain] if table else []
        for names in _parts([FrontierKeys.crawl_field(crawl) for crawl in crawls], CRAWLS_PER_CALL):
            for sites in _parts([domain, *parted], SITES_PER_CALL):
                cursor: Any = [1, "", "", 0, ""]
                while cursor:
                    request = pack([names, sites, cursor])
                    cursor, *found = unpack(await self._scripts.run("waiting", request))
                    yield await self._found(found)

    async def _found(self, found: Sequence[Any]) -> WaitingUrls:
        """Return the URLs in an answer of the script."""
        urls: list[str] = []
        unread = 0
        for number, site, entries, chunks in found:
            every = [*entries]
            for id_, amount, kept in zip(*[iter(chunks)] * 3, strict=True):
                chunk = await self._stocking.read(id_, kept)
                unread += amount if chunk is None else 0
                every += chunk or ()
            over = await self._over(number, site, every)
            pages = (_entry(one) for one in every if listed_as(one) not in over)
            urls += [page.url for page in pages if page.method == "GET" and not page.is_sitemap]
        return WaitingUrls(urls, unread)

    async def _over(
        self, number: bytes, site: bytes, entries: Sequence[bytes]
    ) -> set[tuple[bytes, bytes] | None]:
        """Return the marks of pages that do not wait any more: a copy of theirs was leased."""
        by_domain = defaultdict[bytes, set[tuple[bytes, bytes]]](set)
        for mark in filter(None, map(listed_as, entries)):
            by_domain[mark[1] or site].add(mark)
        over = set[tuple[bytes, bytes] | None]()
        for domain, marks in by_domain.items():
            some = [*marks]
            request = pack([number, domain, [fingerprint for fingerprint, _ in some]])
            states = unpack(await self._scripts.run("unload", "listed", request))
            over |= {mark for mark, state in zip(some, states, strict=True) if not state}
        return over


def _parts(texts: Sequence[str], most: int) -> Sequence[Sequence[str]]:
    return [texts[at : at + most] for at in range(0, len(texts), most)]


def _entry(packed: bytes) -> Entry:
    _, _, body = split_entry(packed)
    return stored.decode_entry(body)
