"""The waste guard of a process: pages vote, sketches change, and verdicts are published.

Nothing waits for it. Votes that cannot be stored are dropped. Crawls in mode ``on`` act on the
verdicts that are known.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import NamedTuple
from zlib import crc32

import structlog

from crawling.metrics import (
    GUARD_CONFLICTS,
    GUARD_LINKS,
    GUARD_NEIGHBOURS,
    GUARD_PAGES,
    GUARD_SITES,
)
from crawling.page.guard_notes import GuardNotes
from crawling.page.page import Page
from crawling.quality.address_parts import place_of
from crawling.quality.parameter_rules import ParameterRules
from crawling.waste.ballots import READ_EVERY_S, Ballot, Ballots, SiteName
from crawling.waste.decisions import LinkDecision, LinkJudge, decide
from crawling.waste.evidence import evidence_of, may_vote
from crawling.waste.made_up import beside, made_up, nonsense
from crawling.waste.sketches import Counted, SiteVotes, count, in_calls
from crawling.waste.trails import text_of
from crawlstream.model.event import GuardVerdict
from crawlstream.model.url import host_of, origin_of
from crawlstream.model.web.guard_mode import GuardMode
from crawlstream_frontier.waste.families import VerdictChange, family_hash, label_of
from crawlstream_frontier.waste.packing import unpack
from crawlstream_frontier.waste.persons import by_site
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.waste.texts import Kind
from crawlstream_frontier.waste.votes import CrawlBegan, NeighbourAnswer, TextAnswer
from crawlstream_frontier.worker.person_store import PersonVerdicts
from crawlstream_frontier.worker.sketch_store import SKETCHES_PER_CALL, SketchStore

_LOOK_EVERY_S = 1.0
"""Sites that are due within this time share calls of Redis, which cost half as much."""
_CALM_SHARE = 8
"""Number of pages of a calm site of which one votes."""
_KINDS = {Kind.HEAVY: "dup", Kind.DUP: "dup", Kind.FRESH: "fresh", Kind.MAYBE: "maybe"}
CLAIMED_S = 15.0
"""Time for which no other process asks for a neighbour: until all have read the answer."""
_AFTER_TIMEOUT_S = 5.0
_LONGEST_PAUSE_S = 3600.0
"""Longest pause after neighbours that got no answer; the first is 30 s, each is twice as long."""
_STATES = ("open", "last", "dropped", "refused")
"""From the best to the worst."""

log = structlog.get_logger()


class MadeUpUrl(NamedTuple):
    """Made-up neighbour that is to be requested."""

    family: str
    url: str
    texts: Collection[int]
    """Texts of the latest pages of the family: a neighbour is there if it shows one of these."""

    @property
    def shown(self) -> str:
        """Return its family, or text, as it is safe to show."""
        return self.family if text_of(self.family) is not None else label_of(self.family)


class WasteWatch:
    """Collects the votes of this process and brings them into the sketches."""

    def __init__(
        self,
        stores: Callable[[int], SketchStore],
        site_of: Callable[[int, str], str],
        publish: Callable[[GuardVerdict], Awaitable[None]],
        persons: PersonVerdicts,
        *,
        asks: bool = False,
    ) -> None:
        """``stores`` and ``site_of`` take the number of a partition.

        ``asks``: whether sites are asked for made-up neighbours.
        """
        self._asks = asks
        self._stores = stores
        self._site_of = site_of
        self._publish = publish
        self._persons = persons
        self._persons_version, self._persons_at = "", -math.inf
        self._ballots = Ballots(lambda ballot: _count_site(ballot, ""))

    def note(self, page: Page) -> None:
        """Let a page vote that has ended with a response."""
        if not may_vote(page):
            return
        site, now = _site_of(page), time.monotonic()
        ballot = self._ballots.of(site)
        ballot.note_end(page.admitted_at, now)
        if page.guard is not None:
            ballot.note_guarded(page.lease.entry.url, page.status, now)
            _count_links(page.guard)
        if ballot.is_calm and crc32(page.id.encode()) % _CALM_SHARE:
            return
        found = evidence_of(page, self._is_of_site(page))
        self._ballots.add(site, found, now)
        is_trail = self._asks and page.guard is not None and ballot.trails.wants_pages
        if is_trail and found.is_there and found.text is not None:
            names = place_of(found.url).families_at(ballot.main or 0)
            ballot.trails.add(names, found.url, found.text)

    def judge_of(self, page: Page, rules: ParameterRules | None) -> LinkJudge | None:
        """Return what decides about the links of a page to its own site.

        None: the crawl of the page does not act on verdicts.
        """
        if page.guard is None or not may_vote(page):
            return None
        ballot, is_of_site = self._acted_on_by(page), self._is_of_site(page)
        is_error = page.traits is not None and page.traits.text in ballot.soft_errors
        verdicts, main_host = ballot.verdicts, ballot.main_host
        return LinkJudge(is_of_site, verdicts, main_host, rules, is_error=is_error)

    def decision_on(self, page: Page, rules: ParameterRules | None) -> LinkDecision:
        """Return the decision on a leased page of a crawl in mode ``on``, as on a link to it."""
        ballot = self._acted_on_by(page)
        ballot.guarded_at = time.monotonic()
        return decide(page.lease.entry.url, ballot.verdicts, ballot.main_host, rules)

    def _acted_on_by(self, page: Page) -> Ballot:
        """Return the ballot of the site of a page, by which its links are judged."""
        site = _site_of(page)
        ballot = self._ballots.of(site)
        run = ballot.note_run(page.lease)
        if run is not None:
            self._ballots.say(site, CrawlBegan(run), time.monotonic())
        return ballot

    def question(self, page: Page) -> MadeUpUrl | None:
        """Return the neighbour to request with the grant of a leased page; None: there is none.

        The page is of a crawl in mode ``on``, and the neighbour on its own origin.
        """
        ballot = self._ballots.of(_site_of(page))
        if not ballot.trails.by_name:
            return None
        now, origin = time.monotonic(), origin_of(page.lease.entry.url)
        for family, trail in ballot.trails.wanted(now):
            trail.next_at = now + CLAIMED_S
            is_text = text_of(family) is not None
            url = (
                beside(trail.latest, nonsense())
                if is_text
                else made_up(family, trail.first, trail.latest, nonsense())
            )
            if url and origin_of(url) == origin:
                return MadeUpUrl(family, url, trail.texts)
        return None

    async def claim(self, page: Page, question: MadeUpUrl, takes_s: float) -> bool:
        """Return whether no other process asks for a neighbour of the same family.

        ``takes_s``: time that the request may take.
        """
        store, key = self._stores(page.lease.partition), family_hash(question.family)
        for_s = max(CLAIMED_S, takes_s + _AFTER_TIMEOUT_S)
        return await store.claim(page.lease.domain, key, int(for_s * 1000))

    def answer(self, page: Page, question: MadeUpUrl, *, is_there: bool) -> None:
        """Take in the answer of a site."""
        _tell_answer(page, question, "there" if is_there else "missing")
        text = text_of(question.family)
        answered = (
            NeighbourAnswer(question.family, is_there)
            if text is None
            else TextAnswer(text, is_there)
        )
        self._ballots.say(_site_of(page), answered, time.monotonic())

    async def no_answer(self, page: Page, question: MadeUpUrl) -> None:
        """Wait, with all processes, for some time after a site refused or was silent.

        That says nothing of a neighbour. The reaction is reported like that to a page.
        """
        _tell_answer(page, question, "none")
        trail = self._ballots.of(_site_of(page)).trails.by_name.get(question.family)
        pause_s = trail.put_off(time.monotonic(), CLAIMED_S, _LONGEST_PAUSE_S) if trail else 0.0
        store, key = self._stores(page.lease.partition), family_hash(question.family)
        try:
            await store.hold_claim(page.lease.domain, key, int(max(pause_s, CLAIMED_S) * 1000))
        except Exception as error:  # noqa: BLE001  another process may ask earlier
            log.warning("guard", outcome="unclaimed", url=question.url, error=repr(error)[:200])

    def _is_of_site(self, page: Page) -> Callable[[str], bool]:
        """Return whether a URL is of the site of a page."""
        lease, own = page.lease, page.lease.entry.url
        start = own[: own.find("/", len("https://")) + 1] or own

        def is_of_site(url: str) -> bool:
            if url.startswith(start) or host_of(url) == host_of(own):
                return True
            return self._site_of(lease.partition, url) == lease.domain

        return is_of_site

    async def run(self) -> None:
        """Count votes until cancelled."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self.read_persons()
            await self.read_due()
            await self.count_due()

    async def read_persons(self) -> None:
        """Read the verdicts of persons, if crawls act on verdicts and these may have changed."""
        now = time.monotonic()
        if now - self._persons_at < READ_EVERY_S or not self._ballots.is_guarded(now):
            return
        try:
            version, found = await self._persons.since(self._persons_version)
        except Exception as error:  # noqa: BLE001  the guard is a hint: it must not end a worker
            log.warning("guard", outcome="unread", error=repr(error)[:200])
            return
        self._persons_at = now
        if version != self._persons_version:
            self._persons_version = version
            self._ballots.heed(by_site(found))

    async def read_due(self) -> None:
        """Read the sketches of sites whose verdicts are acted on, if they may have changed."""
        by_partition = defaultdict[int, list[str]](list)
        for site in self._ballots.unread(time.monotonic()):
            by_partition[site.partition].append(site.domain)
        for partition, domains in by_partition.items():
            for start in range(0, len(domains), SKETCHES_PER_CALL):
                await self._read(partition, domains[start : start + SKETCHES_PER_CALL])

    async def _read(self, partition: int, domains: Sequence[str]) -> None:
        try:
            found = await self._stores(partition).read(domains)
        except Exception as error:  # noqa: BLE001  the guard is a hint: it must not end a worker
            log.warning("guard", outcome="unread", sites=len(domains), error=repr(error)[:200])
            return
        for domain, raw in zip(domains, found, strict=True):
            ballot = self._ballots.of(SiteName(partition, domain))
            if raw == ballot.raw:
                ballot.read_at = time.monotonic()
            else:
                self._see(SiteName(partition, domain), ballot, raw=raw, sketch=unpack(raw))

    async def count_due(self) -> None:
        """Count the votes of all sites with enough of them."""
        by_partition = defaultdict[int, list[SiteVotes]](list)
        for site in list(self._ballots.due(time.monotonic())):
            raw = self._ballots.of(site).raw
            votes = self._ballots.take(site)
            by_partition[site.partition].append(SiteVotes(site.domain, votes, raw))
        for partition, sites in by_partition.items():
            for some in in_calls(sites):
                await self._count(partition, some)

    async def _count(self, partition: int, sites: Sequence[SiteVotes]) -> None:
        try:
            done = await count(self._stores(partition), sites, asks=self._asks)
            GUARD_CONFLICTS.inc(done.conflicts)
            for each in done.counted:
                await self._counted(partition, each)
        except Exception as error:  # noqa: BLE001  the guard is a hint: it must not end a worker
            log.warning("guard", outcome="votes_lost", sites=len(sites), error=repr(error)[:200])

    async def _counted(self, partition: int, counted: Counted) -> None:
        site = SiteName(partition, counted.domain)
        ballot = self._ballots.of(site)
        self._see(site, ballot, raw=counted.raw, sketch=counted.sketch)
        mode = GuardMode.ON if ballot.is_guarded(time.monotonic()) else GuardMode.WATCH
        for kind, pages in counted.kinds.items():
            GUARD_PAGES.labels(_KINDS[kind]).inc(pages)
        for change in counted.changes:
            await self._tell(counted.domain, change, mode)

    def _see(self, site: SiteName, ballot: Ballot, *, raw: bytes | None, sketch: Sketch) -> None:
        """Take over a sketch as it is stored."""
        ballot.see(raw, sketch, time.monotonic())
        for run in ballot.trials.new:
            self._ballots.say(site, CrawlBegan(run), time.monotonic())
        verdicts = [family.verdict for family in sketch.families]
        _count_site(ballot, max(verdicts, key=_STATES.index, default="open") if raw else "")

    async def _tell(self, site: str, change: VerdictChange, mode: GuardMode) -> None:
        told = {"family": change.family, "before": change.before, "after": change.after}
        log.info("guard_verdict", site=site, **told)
        now = int(time.time())
        event = GuardVerdict(server_time=now, site=site, why=change.counts, mode=mode, **told)
        await self._publish(event)


def _site_of(page: Page) -> SiteName:
    return SiteName(page.lease.partition, page.lease.domain)


def _tell_answer(page: Page, question: MadeUpUrl, answer: str) -> None:
    GUARD_NEIGHBOURS.labels(answer).inc()
    asked = {"url": question.url, "family": question.shown}
    log.info("guard_neighbour", site=page.lease.domain, answer=answer, **asked)


def _count_links(guard: GuardNotes) -> None:
    """Count the links of a page that were held back."""
    for reason, links in guard.refused.items():
        GUARD_LINKS.labels(reason).inc(links)
    if guard.last:
        GUARD_LINKS.labels("last").inc(guard.last)


def _count_site(ballot: Ballot, state: str) -> None:
    if ballot.state != state:
        for name, step in ((ballot.state, -1), (state, 1)):
            if name:
                GUARD_SITES.labels(name).inc(step)
        ballot.state = state
