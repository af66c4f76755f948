"""State of the frontier: crawls, domains, counts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.statuses import PAGE_ENDS, UNDER_WAY
from crawlstream.model.web.refused_families import RefusedFamily, refused_families


class DomainBacklog(NamedTuple):
    """Backlog of a crawl in a domain; a tuple, because a list may have 100 000 of them."""

    domain: str
    total: int
    high_priority: int
    low_priority: int
    """Effective priorities, including the offset set by ``reprioritize``."""
    is_blocked: bool = False
    """True if its rule allows no request: it is on the blacklist, or scaled to 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlState:
    """Ledger of a crawl's latest run, and its backlog by domain."""

    crawl: CrawlKey
    run: int
    state: str
    """State listed in ``UNDER_WAY`` or ``ENDED`` of ``model.statuses``."""
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
    skipped: int = 0
    """Pages that the waste guard ended before they were requested."""
    remember: int | None = None
    """Seconds for which its seen pages outlive a finished run; None: the operator's setting."""
    budgets: Mapping[str, float] = field(default_factory=dict)
    """``max_bytes`` and ``max_failed_share`` of the run, if it has them."""
    counted: int = 0
    """Pages of all of its runs that count against page limits while its data is kept."""
    spilled: int = 0
    """Links that count as admitted and wait in Kafka until Redis has room."""
    shelved: int = 0
    """Queued entries that are on the shelf."""
    body_bytes: int = 0
    paused_until: int = 0
    """End of its pause in epoch seconds; 0: it does not end by itself."""
    done_by_status: Mapping[str, int] = field(default_factory=dict)
    failed_by_reason: Mapping[str, int] = field(default_factory=dict)
    skipped_by_reason: Mapping[str, int] = field(default_factory=dict)
    spent_domains: Mapping[str, int] = field(default_factory=dict)
    """Domains that have spent a budget of theirs in the run, by that budget."""
    filtered_by_reason: Mapping[str, int] = field(default_factory=dict)
    charged: Mapping[str, int] = field(default_factory=dict)
    """Charges of sites for the pages of the run, by currency, in millionths."""
    refused_by_family: Mapping[str, int] = field(default_factory=dict)
    """Links and pages that the waste guard has refused, by ``<reason> <site> <family>``; at most
    64 families of each partition."""
    domains: Sequence[DomainBacklog] = ()
    is_cut: bool = False
    """True if it has more domains than one answer may list."""
    lanes: Sequence[str] = ()
    """Spiders whose crawlers its queued pages wait for, with ``+render`` if they need a browser;
    only of the domains that are listed."""
    missing_partitions: Sequence[int] = ()
    """Partitions that did not answer: their entries are not counted."""
    in_transit: int = 0
    """Records of links that partitions must read before the run can end; only in the state of a
    single crawl."""

    @property
    def refused_families(self) -> Sequence[RefusedFamily]:
        """Return the families of URLs of which the waste guard has refused most, up to 20."""
        return refused_families(self.refused_by_family)

    @property
    def spending(self) -> Mapping[str, Mapping[str, float]]:
        """Return ``budget`` and ``spent`` of each budget of the run."""
        share = self.failed / max(self.done + self.failed, 1)
        spent = {"max_bytes": self.body_bytes, "max_failed_share": round(share, 4)}
        return {
            name: {"budget": budget, "spent": spent[name]} for name, budget in self.budgets.items()
        }

    @property
    def is_under_way(self) -> bool:
        """Return whether the run has not ended yet."""
        return self.state in UNDER_WAY

    @property
    def pending(self) -> int:
        """Return the number of entries that wait: queued, delayed, or spilled to Kafka."""
        return self.queued + self.delayed + self.spilled

    @property
    def is_idle(self) -> bool:
        """Return whether pages wait and none is in flight."""
        return self.state == "running" and self.pending > 0 and not self.held

    def lacking(self, spiders: Collection[str]) -> Sequence[str]:
        """Return the lanes that its pages wait for if no crawler serves any of them.

        ``spiders`` are the lanes of the running crawlers.
        """
        lanes = self.lanes or (self.crawl.spiderid,)
        return lanes if self.is_idle and not {*lanes} & {*spiders} else ()

    @property
    def ended(self) -> int:
        """Return the number of pages that have ended, in any way."""
        return sum(getattr(self, end) for end in PAGE_ENDS)

    @property
    def held_back(self) -> Mapping[str, int]:
        """Return the entries held back by an operator, by reason; blocked ones need ``domains``."""
        if self.state == "paused":
            return {"paused": self.pending} if self.pending else {}
        blocked = sum(domain.total for domain in self.domains if domain.is_blocked)
        return {"blocked": blocked} if blocked else {}

    @property
    def residual(self) -> int:
        """Return the residual of the ledger; any value but 0 is a bug."""
        return self.admitted - self.ended - self.pending - self.held


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierState:
    """Counters of the frontier."""

    life: int
    clock_ms: int
    rules_known: bool
    crawls: int
    """Crawls with a current run; with several partitions, the largest number in a partition."""
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
    """True if seeds wait in Kafka until Redis uses less memory."""
    spilled: int = 0
    """Links that wait in Kafka for room."""
    shelved: int = 0
    """Queued entries that are on the shelf."""
    shelf_chunks: int = 0
    """Chunks on the shelf, if it is a server of its own."""
    residual: int = 0
    """Sum of the residuals of all ledgers at the last check; any value but 0 is a bug."""
    backlog: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of ``domains`` ready or waiting, by spider name."""
    missing_partitions: Sequence[int] = ()
    """Partitions that did not answer: their entries are not counted."""
