"""Where a page is, and what a domain is doing: the answers of an inspection."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.throttle import ThrottleRule


class Where(StrEnum):
    """What the frontier can say about a page of a crawl."""

    HELD = "held"
    """A worker has it."""
    QUEUED = "queued"
    DELAYED = "delayed"
    """It waits for a time."""
    SEEN = "seen"
    """It was admitted once, and waits no longer: done, failed or redirected. Which, only the topics
    of results and events know."""
    NEVER = "never"
    """It was never admitted: nobody asked for it, no page links to it, or it was filtered."""
    SPILLED = "spilled"
    """It was never admitted, unless it is among the links of its crawl that wait in Kafka."""
    UNSURE = "unsure"
    """It was admitted once; too much waits in its domain to tell whether it still does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sighting:
    """One entry of the page that was asked about; a seed that was fed twice has two."""

    where: Where
    url: str
    """As it will be asked for; another spelling of the same page may have been asked about."""
    spiderid: str
    priority: int
    """As it came; where it stands may differ."""
    attempt: int
    """Number of its next or present attempt, from 1."""
    place: int | None = None
    """Of a queued one: place in its band, from 1."""
    ahead: int | None = None
    """Of a queued one: entries of the same crawl, domain and spider that stand before it."""
    due_ms: int | None = None
    """Of a delayed one: how long still."""
    worker: str | None = None
    held_ms: int | None = None
    phase: str | None = None
    """Of a held one: ``granted``, ``sent`` or ``received``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReport:
    """What one crawl knows of a page."""

    crawl: CrawlKey
    run: int
    state: str
    where: Where
    sightings: Sequence[Sighting] = ()
    looked_at: int = 0
    """Entries that were looked at."""
    failed_by_reason: Mapping[str, int] = field(default_factory=dict)
    filtered_by_reason: Mapping[str, int] = field(default_factory=dict)
    """Of the whole run: what may have become of a page that is seen, or never was admitted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandReport:
    """What a crawl has queued in a domain at one priority."""

    crawl: CrawlKey | None
    """None while what an ended crawl left is swept."""
    standing: int
    queued: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueReport:
    """What waits in a domain for one type of spider."""

    spiderid: str
    place: str
    """``ready``, ``waiting`` for its time, or ``parked`` because its rule allows nothing."""
    due_ms: int | None
    bands: int
    """How many there are; the best are listed."""
    first: Sequence[BandReport]


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainReport:
    """A domain as the frontier sees it."""

    domain: str
    rule: ThrottleRule | None
    """After scaling; without hits it allows nothing, None: no rules are known yet."""
    unreported: int
    """Grants whose sending was not reported yet."""
    under_way: int
    """Requests without a response yet."""
    not_before_ms: int
    """How long the domain is left alone still."""
    next_ms: int
    """When it may be asked next, as far as its state tells."""
    strikes: int
    """Back-offs since its last answer; with any, one request at a time tries it."""
    silences: int
    """Requests in a row that found no connection."""
    unanswered_ms: int
    """For how long it has refused or kept silent."""
    crawl_delay_ms: int
    """What its robots.txt asks to keep between two requests; 0: nothing."""
    queues: Sequence[QueueReport]
    kept_for: str = ""
    """Whose limits these are, ``spider[@group]``, where others have theirs; empty: all have one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UrlReport:
    """What the frontier knows of a URL: in each crawl that knows it, and when it may be asked."""

    url: str
    """As it was asked about."""
    crawls: Sequence[PageReport]
    domain: DomainReport | None
    """What its requests are limited by; None for those who may not see what others ask of it."""
    asked: int
    """Crawls that were asked."""
    is_cut: bool = False
    """Whether there are more crawls."""
