"""Choose the pages of a process that go to a browser, and learn from them about their sites.

The records of sites are in the partitions of the frontier, next to the sketches of the waste guard
and in the same way: written by compare-and-set, bounded, and a hint. A lost record costs requests
and time of browsers, never a page.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog
from scrapy.http import HtmlResponse, Response

from crawling.autorender import decisions
from crawling.autorender.decisions import Why
from crawling.autorender.families import family_of
from crawling.autorender.page_content import PageContent, content_of
from crawling.autorender.pairs import needs_browser
from crawling.autorender.record import PairVote, RenderRecord, RenderVerdict, pack, unpack
from crawling.background import Tasks
from crawling.metrics import RENDER_HANDED_OVER, RENDER_PAIRS
from crawling.page.page import Page
from crawling.waste.evidence import is_plain
from crawlstream_frontier.waste.packing import serial_of
from crawlstream_frontier.worker.sketch_store import SKETCHES_PER_CALL, SketchStore, SketchWrite

_FRESH_S = 0.25
"""Time for which a record is not read again."""
_COLLECT_S = 1.0
"""Time for which votes on families with a verdict are collected."""
_MOST_SITES = 4_096
_TRIES = 5
_ENDING = "+render"
"""Ending of the names of records: no domain has such a name."""

log = structlog.get_logger()


class _SiteName(NamedTuple):
    partition: int
    domain: str


@dataclass(slots=True)
class _Site:
    record: RenderRecord = field(default_factory=RenderRecord)
    """As it is stored, with the votes of this process."""
    raw: bytes | None = None
    read_at: float = 0
    is_unknown: bool = False
    """True if there is no record, and no page of this process was rendered to begin one."""
    votes: list[PairVote] = field(default_factory=list)
    is_writing: bool = False


class RenderChoice:
    """Decides for the pages of one process."""

    def __init__(self, stores: Callable[[int], SketchStore], tasks: Tasks) -> None:
        """``stores`` takes the number of a partition."""
        self._stores = stores
        self._tasks = tasks
        self._sites: OrderedDict[_SiteName, _Site] = OrderedDict()

    def are_known(self, pages: Iterable[Page]) -> bool:
        """Return whether the records of the sites of some pages were read just now."""
        oldest = time.monotonic() - _FRESH_S
        return all(self._of(page).read_at > oldest for page in pages)

    async def read(self, pages: Iterable[Page]) -> None:
        """Read the records of the sites of some pages; where Redis fails, they stay as they are."""
        oldest = time.monotonic() - _FRESH_S
        names = dict.fromkeys(map(_name_of, pages))
        due = defaultdict[int, list[str]](list)
        for name in names:
            if self._site(name).read_at <= oldest:
                due[name.partition].append(name.domain)
        for partition, domains in due.items():
            for start in range(0, len(domains), SKETCHES_PER_CALL):
                await self._read(partition, domains[start : start + SKETCHES_PER_CALL])

    async def _read(self, partition: int, domains: Sequence[str]) -> None:
        try:
            found = await self._stores(partition).read([name + _ENDING for name in domains])
        except Exception as error:  # noqa: BLE001  a record is a hint: it must not end a worker
            log.warning("render", outcome="record_unread", error=repr(error)[:200])
            return
        now = time.monotonic()
        for domain, raw in zip(domains, found, strict=True):
            site = self._site(_SiteName(partition, domain))
            site.is_unknown = raw is None and not site.read_at
            site.read_at = now
            if raw != site.raw:
                self._see(site, raw)

    @staticmethod
    def _see(site: _Site, raw: bytes | None) -> None:
        site.raw, site.record = raw, unpack(raw)
        site.record.add(site.votes)

    def why_rendered(self, page: Page) -> Why | None:
        """Return why a leased page is rendered without a look at its document; None: it is not."""
        site = self._of(page)
        why = decisions.why_at_lease(site.record, page.lease.entry.url)
        if why is None and site.is_unknown:
            why = Why.TRIAL
        if why is not None:
            site.is_unknown = False
            RENDER_HANDED_OVER.labels(why).inc()
        return why

    def is_shell(self, page: Page, response: Response) -> bool:
        """Return whether a page must be rendered for its document; else note what that shows."""
        sent = _read_content(response)
        if sent is None:
            return False
        record, url = self._of(page).record, page.lease.entry.url
        if decisions.is_shell(record, url, sent):
            RENDER_HANDED_OVER.labels(Why.SHELL).inc()
            return True
        if vote := decisions.vote_of_sent(record, url, sent):
            self._vote(page, vote)
        return False

    def compare(self, page: Page, sent: Response, made: Response) -> Mapping[str, object]:
        """Note the pair of a rendered page; return fields of its result.

        ``why``: why it was rendered; ``needed``: whether it had to be, if it can be read.
        """
        record, url = self._of(page).record, page.lease.entry.url
        before, after = _read_content(sent), _read_content(made)
        told: dict[str, object] = {"why": decisions.why_in_browser(record, url, before).value}
        if before is None or after is None:
            return told
        is_needed = needs_browser(before, after)
        RENDER_PAIRS.labels("needed" if is_needed else "plain").inc()
        if vote := decisions.vote_of_pair(record, url, is_needed=is_needed):
            self._vote(page, vote)
        return {**told, "needed": is_needed}

    def _vote(self, page: Page, vote: PairVote) -> None:
        if not is_plain(page):
            return
        name = _name_of(page)
        site = self._site(name)
        is_urgent = site.record.verdict(family_of(page.lease.entry.url)) is RenderVerdict.UNSURE
        is_urgent = is_urgent or vote.family not in site.record.families
        site.votes.append(vote)
        site.record.add([vote])
        if not site.is_writing:
            site.is_writing = True
            self._tasks.spawn(self._write(name, site, 0 if is_urgent else _COLLECT_S))

    async def _write(self, name: _SiteName, site: _Site, pause_s: float) -> None:
        try:
            await asyncio.sleep(pause_s)
            while votes := site.votes:
                site.votes = []
                await self._add(name, site, votes)
        except Exception as error:  # noqa: BLE001  a record is a hint: it must not end a worker
            log.warning("render", outcome="votes_lost", error=repr(error)[:200])
        finally:
            site.is_writing = False

    async def _add(self, name: _SiteName, site: _Site, votes: Sequence[PairVote]) -> None:
        """Add votes to the stored record; after five conflicts they are dropped."""
        store, key = self._stores(name.partition), name.domain + _ENDING
        for _ in range(_TRIES):
            record = unpack(site.raw)
            record.add(votes)
            packed = pack(record, serial_of(site.raw) + 1)
            (stored,) = await store.replace([SketchWrite(key, site.raw, packed)])
            self._see(site, packed if stored is None else stored)
            if stored is None:
                return

    def _of(self, page: Page) -> _Site:
        return self._site(_name_of(page))

    def _site(self, name: _SiteName) -> _Site:
        """Return a site, which becomes the latest; the one that is the oldest is forgotten."""
        site = self._sites.setdefault(name, _Site())
        self._sites.move_to_end(name)
        if len(self._sites) > _MOST_SITES:
            self._sites.popitem(last=False)
        return site


def _name_of(page: Page) -> _SiteName:
    return _SiteName(page.lease.partition, page.lease.domain)


def _read_content(response: Response) -> PageContent | None:
    """Return the content of a page; None: it is not one, or cannot be read."""
    if not isinstance(response, HtmlResponse) or not 200 <= response.status < 300:
        return None
    try:
        return content_of(response)
    except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
        log.warning("parse", outcome="content_unread", url=response.url, error=str(error)[:200])
        return None
