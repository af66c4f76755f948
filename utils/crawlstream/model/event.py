"""Events of crawls and pages, replies about pages, and records that could not take effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from crawlstream.model.crawl import CrawlKey, FiringKey

DETAIL_LENGTH = 300
"""Characters of an error's text that an event repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFailed:
    """Page that will have no result."""

    id: str
    """Permanent name of the entry; also the key of its record."""
    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    url: str
    reason: str
    """A code: ``dns``, ``timeout``, ``robots``, ``killed_worker`` …"""
    attempts: int
    depth: int
    parent_url: str | None = None
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""
    uuid: str | None = None
    detail: str = ""
    """Text of the error, for people; cut to ``DETAIL_LENGTH``."""


class SkippedPage(NamedTuple):
    """Page that was not requested."""

    id: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PagesSkipped:
    """Pages of one site and family of URLs that ended before their requests."""

    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    reason: str
    """A code: ``guard_path``, ``guard_parameter``, ``guard_host``, ``domain_budget``."""
    family: str = ""
    """Name of the family, safe to show; empty if there is none."""
    by: str = ""
    """Budget that the site has spent; empty if there is none."""
    site: str
    pages: Sequence[SkippedPage]
    """At least one; the id of the first is the key of the record."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PaymentRequired:
    """Origin that wants to be paid: its first page with the status 402 in a run."""

    id: str
    """Id that each event of the run and the origin has; also the key of its record."""
    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    origin: str
    url: str
    """The first page."""
    price: str | None
    """Its price; None if the site names none."""
    error: str | None
    """Code of ``crawler-error``."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlEvent:
    """Start of a run, or its end, which each run has once."""

    event: str
    """``crawl_started``, ``crawl_finished``, ``crawl_stopped`` or ``crawl_expired``."""
    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    started_at: float = 0
    """Epoch seconds; of endings only."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """admitted, done, failed, redirected, skipped, stopped, expired, bytes; of endings only."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``done``, ``failed``, ``skipped``, ``filtered``, ``dropped`` and ``reserved`` by reason,
    ``refused`` by family, ``charged`` by currency in millionths; of endings only."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""
    by: str = ""
    """Budget that ended the run, for ``crawl_expired``; empty: its ``expires``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDelivered:
    """Account of an ended run by a pipeline that has read all of its results."""

    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    pipeline: str
    edition: int
    done: int
    """Pages in state done, as counted at the end of the run."""
    read: int
    repeats: int
    delivered: int
    filtered: Mapping[str, int]
    undelivered: int
    dropped: Mapping[str, int] = field(default_factory=dict)
    """Pages without repeats whose body was not kept, by the word that says so."""
    reserved: int = 0
    """Pages without repeats that their site reserves for the purpose of the crawl."""
    archived: Mapping[str, int] = field(default_factory=dict)
    """``revisits`` and ``bytes_saved``, where payloads are stored once and there are any."""
    quality: Mapping[str, Any] = field(default_factory=dict)
    """Quality of items: ``items``, ``fields``, ``score``, ``expect``, ``ok``; empty: no items."""

    @property
    def silent(self) -> int:
        """Return the number of done pages without a result that could be read."""
        return max(self.done - (self.read - self.repeats), 0)

    @property
    def is_complete(self) -> bool:
        """Return whether the pipeline read every page that is done."""
        return self.done == self.read - self.repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class GuardVerdict:
    """Change of the waste guard's verdict on a family of URLs; it is of no crawl."""

    server_time: int
    """Epoch seconds."""
    site: str
    family: str
    """Name of the family, safe to show."""
    before: str
    """``open``, ``last``, ``refused`` or ``dropped``."""
    after: str
    why: Mapping[str, int]
    """Counters that decided."""
    mode: str
    """``on`` if crawls act on it at present; ``watch``: no link is changed by it."""


Event = PageFailed | PagesSkipped | PaymentRequired | CrawlEvent | RunDelivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Record that could not take effect, kept whole and with its reason."""

    reason: str
    """Code of ``model.request.Refusal`` or of the component that refused it."""
    errors: Sequence[str]
    """Sentences, each with the JSON path that it refers to."""
    raw: bytes | None
    """Value of the record, unchanged."""
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    """Timestamp of the record."""


class RecordPlace(NamedTuple):
    """Place of a record in Kafka."""

    topic_id: str
    """UUID of the topic, as `Batch` names it."""
    partition: int
    offset: int | None
    """None: Kafka has the record, before the present end of the partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageReply:
    """Reply about the page that a seed led to; it has either a place or a reason."""

    uuid: str
    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    id: str | None = None
    """Id of the page, and key of its record; None: its run ended before it was fetched."""
    url: str | None = None
    """Requested URL: of the seed, or of the end of its redirects; None as above."""
    status_code: int | None = None
    mime: str | None = None
    """Media type by ``Content-Type``, in lower case."""
    body_size: int | None = None
    """Bytes of the body; the record may have fewer."""
    digest: str | None = None
    place: RecordPlace | None = None
    """Place of the result on ``<prefix>.crawled_firehose``."""
    reason: str = ""
    """Why there is no result: a code of ``page_failed``, or how the run ended."""
    attempts: int = 0

    @property
    def is_result(self) -> bool:
        """Return whether there is a result."""
        return not self.reason
