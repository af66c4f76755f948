"""What the frontier tells about itself: crawls, domains, counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlstream.model.crawl import CrawlKey

UNDER_WAY = ("running", "paused", "stopping", "expiring")
ENDED = ("finished", "stopped", "expired")
"""The states of a run: it stops and expires until the last page that a worker has is back."""


class DomainBacklog(NamedTuple):
    """What one crawl has waiting in one domain; a tuple, as a list may have 100 000 of them."""

    domain: str
    total: int
    high_priority: int
    low_priority: int
    """Priorities as they stand now, with what ``reprioritize`` added."""
    is_blocked: bool = False
    """Whether its rule allows nothing: it is on the blacklist, or scaled to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlState:
    """The ledger of a crawl's latest run, and its backlog by domain."""

    crawl: CrawlKey
    run: int
    state: str
    """One of ``UNDER_WAY`` or ``ENDED``."""
    started_at: float
    """Epoch seconds."""
    last_activity: float
    expires: int
    admitted: int
    queued: int
    delayed: int
    held: int
    done: int
    failed: int
    redirected: int
    stopped: int
    expired: int
    remember: int | None = None
    """Seconds for which what it has seen outlives a finished run; None: as the operator has it."""
    counted: int = 0
    """Pages of all of its runs that page limits count, for as long as it is remembered."""
    spilled: int = 0
    """Admitted as far as is known; waiting in Kafka until Redis has room."""
    shelved: int = 0
    """Of the queued ones, those on the shelf."""
    body_bytes: int = 0
    paused_until: int = 0
    """Epoch seconds at which its pause ends by itself; 0: it does not."""
    done_by_status: Mapping[str, int] = field(default_factory=dict)
    failed_by_reason: Mapping[str, int] = field(default_factory=dict)
    filtered_by_reason: Mapping[str, int] = field(default_factory=dict)
    domains: Sequence[DomainBacklog] = ()
    is_cut: bool = False
    """Whether it has more domains than one answer may list."""
    lanes: Sequence[str] = ()
    """Spiders whose crawlers its queued pages wait for, ``+render`` behind those with a browser, as
    far as its domains were listed."""
    missing_partitions: Sequence[int] = ()
    """Partitions that did not answer: what they have is not counted."""
    in_transit: int = 0
    """Records of links that partitions have to read before the run can end; known of a single crawl
    only."""

    @property
    def is_under_way(self) -> bool:
        """Whether the run has not ended yet."""
        return self.state in UNDER_WAY

    @property
    def pending(self) -> int:
        """Entries that wait, now or later, here or in Kafka."""
        return self.queued + self.delayed + self.spilled

    @property
    def is_idle(self) -> bool:
        """Whether pages wait and none is under way."""
        return self.state == "running" and self.pending > 0 and not self.held

    def lacking(self, spiders: Collection[str]) -> Sequence[str]:
        """Whom it waits for if nobody works on it, though pages wait; see ``lanes``.

        ``spiders`` are those that crawlers run.
        """
        lanes = self.lanes or (self.crawl.spiderid,)
        return lanes if self.is_idle and not {*lanes} & {*spiders} else ()

    @property
    def held_back(self) -> Mapping[str, int]:
        """Entries that wait because a person said so, by reason; blocked ones need ``domains``."""
        if self.state == "paused":
            return {"paused": self.pending} if self.pending else {}
        blocked = sum(domain.total for domain in self.domains if domain.is_blocked)
        return {"blocked": blocked} if blocked else {}

    @property
    def residual(self) -> int:
        """What the equation of the ledger leaves over; anything but 0 is a defect."""
        ended = self.done + self.failed + self.redirected + self.stopped + self.expired
        return self.admitted - ended - self.pending - self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierState:
    """Counters of the frontier."""

    life: int
    clock_ms: int
    rules_known: bool
    crawls: int
    """Crawls with a run under way; of several partitions, the number in the one that has most."""
    queued: int
    delayed: int
    held: int
    workers: int
    outbox: int
    actions: int
    memory_used: int = 0
    """Bytes that Redis uses."""
    memory_limit: int = 0
    """Its ``maxmemory``; 0: none."""
    is_full: bool = False
    """Whether seeds wait in Kafka until Redis uses less."""
    spilled: int = 0
    """Links that wait in Kafka for room."""
    shelved: int = 0
    """Of the queued entries, those on the shelf."""
    shelf_chunks: int = 0
    """Chunks on the shelf, if that is a server of its own."""
    residual: int = 0
    """What the equations of all ledgers left over when they were last added up; anything but 0 is a
    defect."""
    backlog: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Spider name -> ``domains`` ready or waiting."""
    missing_partitions: Sequence[int] = ()
    """Partitions that did not answer: what they have is not counted."""
