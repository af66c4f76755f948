"""Answers of an inspection: where a page is, and the state of its domain."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import GATE


class PagePlace(StrEnum):
    """Place of a page of a crawl, as far as the frontier knows."""

    HELD = "held"
    """A worker has a lease of it."""
    QUEUED = "queued"
    DELAYED = "delayed"
    """It waits for a scheduled time."""
    SEEN = "seen"
    """It was admitted and no longer waits: done, failed or redirected. Only the topics of results
    and events have its outcome."""
    NEVER = "never"
    """It was never admitted: not requested, not linked to by any page, or filtered."""
    SPILLED = "spilled"
    """It was never admitted, or it is among the links of its crawl that wait in Kafka."""
    UNSURE = "unsure"
    """It was admitted; its domain has too many entries to check whether it still waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """Entry of the requested page; a seed that was fed twice has two."""

    where: PagePlace
    url: str
    """URL that will be requested; it may be another spelling of the one in the question."""
    spiderid: str
    priority: int
    """Priority when it was admitted; its effective priority may differ."""
    attempt: int
    """Number of its next or current attempt, from 1."""
    place: int | None = None
    """Place in its queue, from 1; queued entries only."""
    ahead: int | None = None
    """Entries of the same crawl, domain and spider before it; queued entries only."""
    due_ms: int | None = None
    """Milliseconds until it is due; delayed entries only."""
    worker: str | None = None
    held_ms: int | None = None
    phase: str | None = None
    """Phase ``granted``, ``sent`` or ``received``; leased entries only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """State of a page in a crawl."""

    crawl: CrawlKey
    run: int
    state: str
    where: PagePlace
    sightings: Sequence[Sighting] = ()
    looked_at: int = 0
    """Number of entries that were examined."""
    failed_by_reason: Mapping[str, int] = field(default_factory=dict)
    filtered_by_reason: Mapping[str, int] = field(default_factory=dict)
    """Counters of the whole run: the possible outcomes of a page that is seen or not admitted."""
    host_budget: str = ""
    """State of its domain in a crawl with a host budget, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlQueueReport:
    """Queue of a crawl in a domain at a priority."""

    crawl: CrawlKey | None
    """Crawl; None while the rest of an ended crawl is swept."""
    standing: int
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """Queues of a domain for one type of spider."""

    spiderid: str
    place: str
    """``ready``, ``waiting`` for its time, or ``parked`` because its rule allows nothing."""
    due_ms: int | None
    bands: int
    """Number of queues; those with the highest priorities are listed."""
    first: Sequence[CrawlQueueReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateReport:
    """State of the limit that a domain has in common with others; see ``Groups``."""

    name: str
    """Name of its gate: ``=`` and the name of the group."""
    rule: ThrottleRule | None
    """None: the rules were changed while the domain was examined."""
    unreported: int
    under_way: int
    next_ms: int
    """Milliseconds until the next request to any of its domains."""
    waiting: int
    """Number of domains that wait for it."""

    @property
    def group(self) -> str:
        """Return the name of the group."""
        return self.name.removeprefix(GATE)

    @property
    def wait_s(self) -> float:
        """Return the seconds that a domain that comes now has to wait, by the rule: at least."""
        hits = self.rule.effective_hits if self.rule else 0
        turns = self.rule.window_s * self.waiting / hits if self.rule and hits else 0.0
        return max(self.next_ms / 1000, turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReport:
    """State of a domain in the frontier."""

    domain: str
    rule: ThrottleRule | None
    """Rule after scaling; with 0 hits it allows no request. None: no rules are known yet."""
    unreported: int
    """Grants whose requests were not reported as sent yet."""
    under_way: int
    """Requests without a response yet."""
    not_before_ms: int
    """Milliseconds until the domain may get requests again."""
    next_ms: int
    """Milliseconds until its next possible request, as far as its state shows."""
    strikes: int
    """Back-offs since its last answer; if any, at most one request is in flight to it."""
    silences: int
    """Consecutive requests without a connection."""
    unanswered_ms: int
    """Milliseconds for which it has refused requests or not responded."""
    crawl_delay_ms: int
    """Time between two requests that its robots.txt requests; 0: none."""
    queues: Sequence[QueueReport]
    is_outside_hours: bool = False
    """True if its robots.txt wants no visits at this time of day (Visit-time)."""
    latency_ms: int = 0
    """Mean time to the first byte, if its rule is gentle; 0: not known."""
    lowest_latency_ms: int = 0
    """Lowest such mean, which rises by 5 % an hour; 0: not known, or too few answers."""
    gentle_ms: int = 0
    """Time between two requests that this latency requires; 0: none."""
    gate: GateReport | None = None
    """Limit that the domain has in common with others; None: it is in no group."""
    kept_for: str = ""
    """Spider and group of these limits, ``spider[@group]``; empty: all spiders share them."""

    @property
    def spacing(self) -> tuple[float, str]:
        """Return the present milliseconds between two requests, and what requires them.

        That is ``rule``, ``robots`` (Crawl-delay, Visit-time), ``answers`` (back-off), or
        ``gentle`` (latency). A rule that allows bursts requires none.
        """
        if self.not_before_ms > 0:
            return self.not_before_ms, "robots" if self.is_outside_hours else "answers"
        rule, needs = self.rule, {"robots": self.crawl_delay_ms, "gentle": self.gentle_ms}
        is_even = rule and rule.effective_hits and (rule.moderated or rule.gentle)
        by_rule = 1000 * rule.window_s / rule.effective_hits if rule and is_even else 0
        source = max(needs, key=lambda name: needs[name])
        return (needs[source], source) if needs[source] > by_rule else (by_rule, "rule")


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlReport:
    """State of a URL: its entries in each crawl that has it, and the state of its domain."""

    url: str
    """URL in the question."""
    crawls: Sequence[PageReport]
    domain: DomainReport | None
    """State of its domain; None for clients that may not see the requests of others to it."""
    asked: int
    """Number of crawls that were searched."""
    is_cut: bool = False
    """True if there are more crawls."""


class NextReason(StrEnum):
    """Reason for the priority of a page that waits."""

    SEED = "seed"
    REDIRECT = "redirect"
    """It has the priority of the page that redirected to it."""
    RULE = "rule"
    """A priority rule of its crawl has changed its priority."""
    PROMOTED = "promoted"
    """A third link to it was found while it waited."""
    HOST_BUDGET = "host_budget"
    """Its domain was over the host budget of its crawl."""
    LINK = "link"
    """Its priority is that of its depth, or one that its spider has given it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPage:
    """Page of a crawl that is among the next to be requested."""

    url: str
    domain: str
    spiderid: str
    priority: int
    """Effective priority."""
    depth: int
    attempt: int
    """Number of its next attempt, from 1."""
    due_ms: int | None
    """Milliseconds until it is requested by the rule of its domain, at the earliest; None: the rule
    allows nothing."""
    reason: NextReason
    rule: int | None = None
    """Number of the rule, from 1, for ``RULE``."""
    parent_url: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NextPages:
    """Pages of a crawl that are requested next, in their order."""

    crawl: CrawlKey
    run: int
    state: str
    pages: Sequence[NextPage]
    is_complete: bool
    """False if other pages may come before some of these."""
