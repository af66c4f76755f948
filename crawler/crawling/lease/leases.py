"""Leases of this process: pages in progress and their pending reports to the frontier.

Slots are shared; reports and replies are kept by partition of the frontier.

A lease becomes a :class:`~crawling.page.page.Page` here. It is removed when the frontier has taken
its end, or reported that the lease is stale: then another worker has it.

Everything here is plain state, on one thread; :mod:`crawling.runtime.lease_loop` carries it to the
frontier.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from crawling.lease.cpu_fairness import Shares
from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import CONTACT_WITHIN_S, FENCE_S, LastContact
from crawling.lease.machines import Machines
from crawling.lease.partition import PartitionLeases
from crawling.lease.pending_report import End, LeaseReport
from crawling.lease.sites import Sites
from crawling.lease.slots import SLOW_PER_SLOT, Slots
from crawling.page.body_budget import BodyBudget
from crawling.page.page import FURTHER, Page, Phase
from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import Entry, Lease
from crawlstream.model.effects import UNSENT, Outcome, Release, Requeue, SentRequest, Settle
from crawlstream.model.throttle_table import Reaction, SiteReaction
from crawlstream.model.url import entry_id, fingerprint, look_up_link
from crawlstream.model.words.price import price_in

START_BY_S = 0.5
"""A lease is given back if its request has not left this long after its grant was requested."""
LEASES_PER_SLOT = 4
"""Open leases for each download slot: parsing and publishing must not starve the downloads."""


class LinkSpiller(Protocol):
    """Takes links to Kafka; see `publish.spill` and `publish.link_sender`."""

    def takes(self, page: Page) -> bool:
        """Return whether any link of a page that ends must go there."""

    def begin(self, page: Page, settle: Settle) -> None:
        """Take them; ``Leases.spilled`` ends what this begins."""


class Leases:
    """All leases of this process; ``on_report`` is called when there is news for the frontier."""

    def __init__(
        self,
        slots: int,
        on_report: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        *,
        body_budget: BodyBudget | None = None,
        slow_per_slot: int = SLOW_PER_SLOT,
    ) -> None:
        self._on_report, self.clock = on_report, clock
        self._partitions: defaultdict[int, PartitionLeases] = defaultdict(
            lambda: PartitionLeases(LastContact(clock))
        )
        self._by_id: dict[str, Page] = {}
        self.slots = Slots(slots, clock, slow_per_slot=slow_per_slot)
        self._shares = Shares(clock)
        self.body_budget = body_budget or BodyBudget()
        self._most = LEASES_PER_SLOT * slots
        self.spiller: LinkSpiller | None = None
        """Takes links to Kafka that the partition of their page does not take."""
        self._reserved, self.timeout_s, self.sites, self.machines = 0, 10.0, Sites(), Machines()

    # Coming in.

    def admit(self, lease: Lease) -> Page:
        """Take on a lease that the frontier granted."""
        name = entry_id(lease.crawl, lease.run, _identity(lease.entry), lease.entry.origin)
        page = Page(lease, name, self.clock(), Phase.SPARE if lease.is_spare else Phase.WAITING)
        self._partitions[lease.partition].add(page)
        self._by_id[page.id] = page
        self.slots.take(page)
        return page

    def rest(self, pages: Sequence[Page]) -> list[Page]:
        """Give back new pages of domains that have had their share; return the others.

        Half of the pages stay, however expensive: there must be something to do where
        every domain has had its share.
        """
        for page, rest_s in self._shares.expensive(pages, but=len(self) // 2):
            self.release(page, delay_ms=int(rest_s * 1000))
        return [page for page in pages if page.is_open]

    def room(self) -> int:
        """Return how many more leases may be requested: one for each slot without a page."""
        return max(0, min(self.slots.free(), self._most - len(self)) - self._reserved)

    def reserve(self, leases: int) -> None:
        """Add to the number of requested leases; a negative number subtracts."""
        self._reserved += leases

    def room_at(self) -> float:
        """Return when there will be room without news, by the monotonic clock; may be never."""
        return self.slots.next_free_at() if len(self) < self._most else math.inf

    def __len__(self) -> int:
        return sum(map(len, self._partitions.values()))

    def by_id(self, page_id: str) -> Page | None:
        """The page that a record belongs to; None if it has gone."""
        return self._by_id.get(page_id)

    def of(self, partition: int) -> PartitionLeases:
        """Return the leases of one partition, with its pending reports."""
        return self._partitions[partition]

    # In progress.

    def note_answer(self, partition: int, at: float, redis_epoch: int) -> bool:
        """A partition answered a call that left at ``at``, so the deadline there has moved.

        Whether it is the same as before. One that was restarted need not know what it granted.
        """
        held = self._partitions[partition]
        is_same = held.contact.note_answer(at, redis_epoch)
        if not is_same:
            self.release_unsent(partition)
        return is_same

    def may_send(self, page: Page, within_s: float = FENCE_S) -> bool:
        """Return whether a lease is certainly this worker's: Redis has answered ``within_s``."""
        return self._of(page).contact.came_within(within_s)

    @property
    def is_in_contact(self) -> bool:
        """Return whether a partition answered so recently that its leases are surely valid."""
        contacts = [held.contact for held in self._partitions.values()]
        return not contacts or any(contact.came_within(FENCE_S) for contact in contacts)

    def _of(self, page: Page) -> PartitionLeases:
        return self._partitions[page.lease.partition]

    def set_out(self, page: Page, url: str) -> None:
        """Let any request of a page be connected; GrantExpired, OtherSite: see ``Sites.check``."""
        if page.phase is not Phase.WAITING or not self.may_send(page):
            raise GrantExpired
        self.sites.check(page.lease, url)
        if self._age_of(page) > START_BY_S:
            self.slots.were_too_late()
            raise GrantExpired
        self.slots.waited(self.clock() - page.admitted_at)
        self._move(page, Phase.CONNECTING)

    def depart(self, page: Page) -> None:
        """Note that the request is written to its connection now; GrantExpired if it must not.

        A process that was frozen since the page set out finds its grant expired, whatever it
        receives first. Until the departure is reported, the frontier assumes that the request
        may leave at any moment.
        """
        is_granted = page.phase is Phase.CONNECTING and self._age_of(page) < FENCE_S
        is_too_late = self.clock() >= page.until
        if is_too_late or not (is_granted and self.may_send(page, _contact_s(page))):
            raise GrantExpired
        self._move(page, Phase.SENT)
        page.left_at, page.head_at = self.clock(), 0

    def departed(self, page: Page) -> None:
        """The request has left, now at the latest."""
        if page.phase is Phase.SENT:
            self._note_sent(page, received=False)

    def receive(self, page: Page, heard: SiteReaction | None = None) -> None:
        """The response is there, or none will come; the site was ``heard`` of, if only refusing."""
        if page.phase is Phase.SENT:
            self._move(page, Phase.RECEIVED)
            page.latency_ms = int((self.clock() - page.left_at) * 1000)
            page.received_at = time.time()
            self._note_sent(page, received=True, heard=heard)
        elif page.phase is Phase.CONNECTING and heard is not None:
            self._note_sent(page, received=True, heard=heard)

    def answered(self, page: Page) -> None:
        """There is a response; one that no site has given if it is a middleware of the user's."""
        if page.phase.is_download:
            self._move(page, Phase.RECEIVED)
            page.received_at = time.time()

    def _note_sent(self, page: Page, *, received: bool, heard: SiteReaction | None = None) -> None:
        if page.is_lent:
            page.reaction = heard
            return
        if page.sent_ms is None:
            page.sent_ms = int(self._age_of(page) * 1000) + 1
        latency = _first_byte_ms(page, heard, self.timeout_s)
        self._of(page).report.note_sent(_sent_request(page, heard, latency, received=received))
        self._on_report()

    def _age_of(self, page: Page) -> float:
        """Seconds since the page's grant was asked for."""
        return self.clock() - page.lease.issued_at

    # Ends.

    def settle(self, page: Page, outcome: Outcome, reason: str) -> None:
        """The page has its result, its failure or its redirect, acknowledged by Kafka."""
        settle = _settle_of(page, outcome, reason)
        if page.is_open and settle.links and self.spiller and self.spiller.takes(page):
            self._move(page, Phase.SPILLING)
            self.spiller.begin(page, settle)
        else:
            self._end(page, settle)

    def spilled(self, page: Page, end: Settle | Release) -> None:
        """End a page whose links Kafka has: report ``end``, or give the page back."""
        held = self._of(page)
        if held.pages.get(page.token) is page:
            self._move(page, Phase.ENDED)
        held.report.add(end)
        self._on_report()

    def requeue(self, page: Page, delay_ms: int) -> None:
        """Another attempt later, at a lower priority."""
        self._end(page, Requeue(token=page.token, delay_ms=delay_ms, sent_ms=page.sent_ms))

    def release(self, page: Page, **how: Any) -> None:
        """Give the page back, unmarked; ``how``: fields of a ``Release``."""
        self._end(page, _release_of(page, how))

    def release_buyer(self, page: Page, crawl_delay_ms: int) -> None:
        """Release a page whose grant has been spent on a robots.txt."""
        self.release(page, robots=True, crawl_delay_ms=crawl_delay_ms)

    def release_unsent(self, partition: int | None = None) -> None:
        """Give back everything whose request has not left, perhaps of one partition only."""
        for number, held in self._partitions.items():
            if partition in {None, number}:
                for page in held.open_pages(unsent_only=True):
                    self.release(page)

    def release_all(self) -> None:
        """Give back everything that has not ended."""
        for held in self._partitions.values():
            for page in held.open_pages():
                self.release(page)

    def _end(self, page: Page, end: End) -> None:
        if page.is_open:
            self._move(page, Phase.ENDED)
            if page.cpu_s:
                self._shares.charge(page.lease.domain, page.cpu_s)
            self._of(page).end(page, end)
            self._on_report()

    def _move(self, page: Page, phase: Phase) -> None:
        self.slots.move(page, phase)
        page.phase = phase
        if not page.is_open:
            self.body_budget.drop(page)

    # To the frontier and back.

    def reported(
        self,
        partition: int,
        owed: LeaseReport,
        stale: Collection[str],
        refused: Collection[str] = (),
    ) -> Sequence[Page]:
        """A partition has answered; the pages that it does not know any more come back.

        What it ``refused`` has not ended: its links are to be spilled.
        """
        held = self._partitions[partition]
        for end in owed.ends:
            if end.token not in refused:
                self._forget(held, end.token)
        for settle in owed.settles:
            if settle.token in refused and self.spiller:
                page = held.pages[settle.token]
                page.phase = Phase.SPILLING
                self.spiller.begin(page, settle)
        return self.lose(partition, stale)

    def lose(self, partition: int, tokens: Collection[str]) -> Sequence[Page]:
        """Forget leases that other workers have now; return their pages still in progress."""
        held = self._partitions[partition]
        pages = [page for token in tokens if (page := held.pages.get(token))]
        lost = [page for page in pages if page.is_open]
        for page in lost:
            self._move(page, Phase.STALE)
            self._forget(held, page.token)
        return lost

    def _forget(self, held: PartitionLeases, token: str) -> None:
        page = held.forget(token)
        if page and self._by_id.get(page.id) is page:
            del self._by_id[page.id]


_WITHOUT_REQUEST = frozenset({Outcome.REDIRECTED, Outcome.SKIPPED})
_WITHOUT_WAY = frozenset({Phase.WAITING, Phase.SPARE})


def _contact_s(page: Page) -> float:
    """Return the age of the latest contact with Redis at which a request may still be written."""
    return FENCE_S if page.is_lent and page.is_further else CONTACT_WITHIN_S


def _release_of(page: Page, how: Mapping[str, Any]) -> Release:
    """Return the release of a page; nothing was sent if its site is at another gate's address."""
    is_unsent = page.located is not None and page.sent_ms is None
    kept = {"sent_ms": UNSENT if is_unsent else page.sent_ms, "gate": page.located}
    return Release(token=page.token, **{**kept, **how})


def _settle_of(page: Page, outcome: Outcome, reason: str) -> Settle:
    is_unsent = outcome in _WITHOUT_REQUEST and page.phase in _WITHOUT_WAY
    return Settle(
        token=page.token,
        outcome=outcome,
        reason=reason,
        links=page.links,
        filtered=dict(page.filtered),
        refused=page.guard.of_site(page.lease.domain) if page.guard else {},
        sent_ms=UNSENT if is_unsent else page.sent_ms,
        body_bytes=page.body_bytes,
        charged=price_in(page.payment["charged"] or "") if page.payment else None,
        answered=page.answered,
        **_kept_back(page, outcome),
    )


def _kept_back(page: Page, outcome: Outcome) -> dict[str, Any]:
    """Return how the result of a page counts beyond its outcome."""
    if (page.rights is None and page.dropped is None) or outcome is not Outcome.DONE:
        return {}
    is_reserved = page.rights is not None and page.rights.get("reserved") is True
    return {"dropped": page.dropped, "is_reserved": is_reserved}


def _sent_request(
    page: Page, heard: SiteReaction | None, first_byte_ms: int | None, *, received: bool
) -> SentRequest:
    assert page.sent_ms is not None
    return SentRequest(page.token, page.sent_ms, received, heard, first_byte_ms)


def _first_byte_ms(page: Page, heard: SiteReaction | None, timeout_s: float) -> int | None:
    """Return the latency of a gentle rule's site; None: unknown, or it is not to be reported.

    Refusals are quick, and say nothing about pages.
    """
    if not page.lease.is_gentle or heard is None:
        return None
    if heard.reaction is Reaction.SILENCE:
        return int(timeout_s * 1000)
    if heard.reaction is Reaction.ANSWER and page.head_at:
        return max(int((page.head_at - page.left_at) * 1000), 1)
    return None


_USUAL_SALTS = frozenset({"", FURTHER})


def _identity(entry: Entry) -> str:
    """The fingerprint of an entry; a name of its own for one that could not be crawled anyway."""
    body, salt = entry.body or b"", entry.salt or ""
    try:
        if entry.method == "GET" and not body and salt in _USUAL_SALTS:
            return look_up_link(entry.url, salt)[2]
        return fingerprint(entry.url, entry.method, body, salt)
    except InvalidUrl:
        return fingerprint("http://invalid/", entry.method, body, f"{salt} {entry.url}")
