"""The lease loop: report finished work to the frontier, and lease the next pages.

One exchange is in flight at a time. The next one is sent when the last is answered and 25 ms have
passed, up to 100 ms if Redis is slow (`crawling.lease.pace`), sooner if all slots are idle. With
nothing to report and nothing due, the loop sleeps until the frontier wakes it or the next domain
is due.

The loop runs in a task of its own. The spider's ``start()`` only reads the queue that it fills.
So Scrapy, which ends by cancelling ``start()``, cannot lose an answer.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from crawling.lease.leases import Leases
from crawling.lease.pace import STARVING_S, Pace
from crawling.lease.partition_rotation import PartitionRotation
from crawling.lease.pending_report import LeaseReport
from crawling.metrics import Meter
from crawling.page.page import Page
from crawling.robots.screen import Screening
from crawlstream.boot.failpoints import failpoint
from crawlstream.errors import FrontierFull, RedisUnavailable
from crawlstream.model.effects import ExchangeResult
from crawlstream.model.partitions.messages import Question
from crawlstream_frontier.wake import Sleeper
from crawlstream_frontier.worker.session import NO_SPARES, WorkerSession

IDLE_S = 5.0
"""Seconds after which an idle worker sends an exchange, in case a wake-up was lost."""
CONTACT_EVERY_S = 0.25
"""Like ``IDLE_S`` while a request waits to be sent: it may leave only soon after an answer."""
RESERVED_S = 0.1
"""Seconds for which slots requested from one partition are not requested from another."""
_NO_ANSWER_PAUSE_S = 0.25
_NO_RULES_PAUSE_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Call:
    """An exchange that is not answered yet."""

    owed: LeaseReport
    want: int
    left_at: float
    tries: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """State that the loops of one worker share."""

    ready: asyncio.Queue[Page]
    """Pages that may be fetched."""
    meter: Meter
    may_lease: Callable[[], bool]
    """True if this process can take on anything more."""
    turns: PartitionRotation = field(default_factory=PartitionRotation)
    """Order in which the loops request pages."""
    on_unconfirmed: Callable[[int, Sequence[Question]], None] | None = None
    """Callback with questions to coordinators: a partition grants pages after their answers."""


class LeaseLoop:
    """Keeps the slots of one worker busy with what the frontier grants."""

    def __init__(
        self,
        session: WorkerSession,
        leases: Leases,
        screen: Screening,
        sleeper: Sleeper,
        *,
        shared: Shared,
    ) -> None:
        self._shared = shared
        self._session = session
        self._partition = session.partition
        self._leases = leases
        self._held = leases.of(session.partition)
        self._screen = screen
        self._sleeper = sleeper
        self._meter = shared.meter
        self._pace = Pace()
        self._unanswered: _Call | None = None
        self._is_asking = self._was_busy = False
        self._reserved = 0
        self._left_at = self._paused_until = self.asked_at = 0.0
        self._nothing_until = 0.0
        self._sleeps_until = 0.0
        self._has_news = False
        self._draining = self._finishing = False
        shared.turns.join(self)

    def news(self) -> None:
        """Note that there is something to report, or that a slot has become free."""
        if self._sleeps_until <= self._paused_until and not self._leases.slots.are_idle:
            return  # The exchange that is sent then reports it.
        due_at = self._due_at()
        if due_at < self._sleeps_until:
            self._sleeps_until = due_at
            self._has_news = True
            self._sleeper.wake()

    def drain(self) -> None:
        """Lease nothing more, and release the pages that are not sent."""
        self._draining = True
        self._leases.release_unsent()
        self.news()

    def finish(self) -> None:
        """End as soon as all pending reports are sent; no more are added."""
        self._finishing = True
        self.drain()

    async def run(self) -> None:
        """Exchange until ``finish`` was called and all reports are answered."""
        while not (self._finishing and self._is_all_reported()):
            await self._rest()
            await self._exchange()

    def _is_all_reported(self) -> bool:
        return self._unanswered is None and not self._held.has_report

    async def _rest(self) -> None:
        """Wait until the next exchange is due."""
        while (due_at := self._due_at()) > (now := time.monotonic()):
            self._sleeps_until = due_at
            await self._sleeper.sleep(due_at - now)
            if not self._has_news:
                self._nothing_until = 0.0
            self._has_news = False
        self._sleeps_until = 0.0

    def _due_at(self) -> float:
        if self._unanswered is not None:
            return self._left_at + _NO_ANSWER_PAUSE_S
        due_at = self._left_at + (CONTACT_EVERY_S if self._leases.slots.unsent else IDLE_S)
        if self._held.has_report or self._finishing:
            hurries = self._leases.slots.are_idle or self._finishing
            due_at = self._left_at + STARVING_S if hurries else self._paused_until
        if self._wants_any():
            room_at = 0.0 if self._leases.room() else self._leases.room_at()
            ask_at = max(self._may_request_at(), room_at)
            now = time.monotonic()
            if ask_at > now or self._shared.turns.has(self, now):
                due_at = min(due_at, ask_at)
        return due_at

    def _may_request_at(self) -> float:
        """Return when pages may be requested, if there is room."""
        starves = self._leases.slots.are_idle
        return max(self._nothing_until, self._left_at if starves else self._paused_until)

    def could_request(self, now: float) -> bool:
        """Return whether this loop would request pages now, if there is room."""
        is_calling = self._is_asking or self._unanswered is not None
        return not is_calling and self._wants_any() and self._may_request_at() <= now

    def was_busy(self, since: float) -> bool:
        """Return whether an exchange at or after ``since`` has carried anything."""
        return self._was_busy and self._left_at >= since

    def _wants_any(self) -> bool:
        return not self._draining and self._shared.may_lease()

    def _next_call(self) -> _Call:
        now = time.monotonic()
        want = self._leases.room() if self._wants_any() and self._shared.turns.has(self, now) else 0
        if want:
            self.asked_at = now
        return _Call(self._held.take_report(), want, now)

    async def _exchange(self) -> None:
        call = self._unanswered or self._next_call()
        self._left_at = time.monotonic()
        if call.owed.settles:
            failpoint("before_settle")
        try:
            answer = await self._ask(call)
        except (RedisUnavailable, FrontierFull) as error:
            log.warning("lease", outcome="no_answer", error=str(error))
            self._unanswered = replace(call, tries=call.tries + 1)
            self._shared.turns.pass_on(self)
            return
        if call.owed.settles:
            failpoint("after_settle")
        self._unanswered = None
        self._hear(call, answer)

    async def _ask(self, call: _Call) -> ExchangeResult:
        """Send an exchange; reserve the requested slots meanwhile, at most ``RESERVED_S``."""
        owed = call.owed
        self._reserve(call.want if call.tries == 1 else 0)
        give_up = asyncio.get_running_loop().call_later(RESERVED_S, self._let_others)
        self._is_asking = True
        try:
            return await self._session.exchange(
                settles=owed.settles,
                requeues=owed.requeues,
                releases=owed.releases,
                sent=owed.sent,
                want=call.want,
                spares=self._held.spares() if call.want else NO_SPARES,
            )
        finally:
            self._is_asking = False
            give_up.cancel()
            self._reserve(0)

    def _reserve(self, want: int) -> None:
        self._leases.reserve(want - self._reserved)
        self._reserved = want

    def _let_others(self) -> None:
        """End the reservation of a partition that does not answer; others may use the slots."""
        self._reserve(0)
        self._shared.turns.pass_on(self)

    def _hear(self, call: _Call, answer: ExchangeResult) -> None:
        took_s = time.monotonic() - self._left_at
        self._pace.answered(took_s)
        self._meter.exchanged(call.owed, answer, took_s)
        self._held.contact.note_date(answer.date_ms)
        if answer.is_crowded is not None:
            self._held.is_crowded = answer.is_crowded
        for page in self._leases.reported(self._partition, call.owed, answer.stale, answer.refused):
            log.info("settle", outcome="stale", url=page.lease.entry.url, id=page.id)
        if not self._leases.note_answer(self._partition, self._left_at, answer.redis_epoch):
            log.warning("lease", outcome="redis_restarted", life=answer.redis_epoch)
        if answer.unconfirmed and (ask := self._shared.on_unconfirmed):
            ask(self._partition, answer.unconfirmed)
        self._plan(answer, call.want)
        self._take(call, answer)
        self._was_busy = bool(call.owed) or bool(answer.leases)
        pause_s = max(self._pace.pause_s, self._shared.turns.pause_s(time.monotonic()))
        self._paused_until = self._left_at + pause_s
        if len(answer.leases) < call.want:
            self._shared.turns.pass_on(self)

    def _take(self, call: _Call, answer: ExchangeResult) -> None:
        leases = answer.leases
        if call.tries > 1:
            # Any of the tries may have made the grants, so they count from the first.
            leases = [replace(lease, issued_at=call.left_at) for lease in leases]
        pages = [self._leases.admit(lease) for lease in leases]
        spares = [self._leases.admit(lease) for lease in answer.spares]
        self._meter.holding(len(self._leases))
        if pages:
            failpoint("after_lease")
        if 0 < call.want <= len(pages):
            # The frontier granted all that was requested: more pages are waiting there.
            pages = self._leases.rest(pages)
        if self._draining:
            self._leases.release_unsent()
        else:
            self._screen.screen([*pages, *spares], self._shared.ready.put_nowait)

    def _plan(self, answer: ExchangeResult, want: int) -> None:
        """Plan the next request for pages, if fewer were granted than requested."""
        if len(answer.leases) >= want:
            self._nothing_until = 0.0
        elif not answer.rules_known:
            log.warning("lease", outcome="no_rules")
            self._nothing_until = time.monotonic() + _NO_RULES_PAUSE_S
        elif answer.next_due_ms is None:
            self._nothing_until = time.monotonic() + IDLE_S
        else:
            pause_s = max(answer.next_due_ms / 1000, STARVING_S)
            self._nothing_until = time.monotonic() + pause_s
