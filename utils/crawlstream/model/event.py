"""What happened to a crawl or a page, and what could not take effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from crawlstream.model.crawl import CrawlKey, FiringKey

DETAIL_LENGTH = 300
"""Characters of an error's text that an event repeats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFailed:
    """A page that will have no result."""

    id: str
    """The entry's name for ever; also the key of its record."""
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
    """What the error said, for people; cut to ``DETAIL_LENGTH``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlEvent:
    """The beginning of a run, or the one ending that each run has."""

    event: str
    """``crawl_started``, ``crawl_finished``, ``crawl_stopped`` or ``crawl_expired``."""
    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    started_at: float = 0
    """Epoch seconds; of endings only."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """admitted, done, failed, redirected, stopped, expired, bytes; of endings only."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``done``, ``failed`` and ``filtered`` by reason; of endings only."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDelivered:
    """The account of a run that has ended, by a pipeline that has read all of its results."""

    crawl: CrawlKey
    run: int
    server_time: int
    """Epoch seconds."""
    pipeline: str
    edition: int
    done: int
    """Pages that are done, as the run's ending counts them."""
    read: int
    repeats: int
    delivered: int
    filtered: Mapping[str, int]
    undelivered: int
    quality: Mapping[str, Any] = field(default_factory=dict)
    """Of items: ``items``, ``fields``, ``score``, ``expect``, ``ok``; empty: none are counted."""

    @property
    def silent(self) -> int:
        """Pages that are done, of which no result was there to be read."""
        return max(self.done - (self.read - self.repeats), 0)

    @property
    def is_complete(self) -> bool:
        """Whether every page that is done was read."""
        return self.done == self.read - self.repeats


Event = PageFailed | CrawlEvent | RunDelivered


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """A record that could not take effect, kept whole and with its reason."""

    reason: str
    """A code, of ``model.request.Refusal`` or of who refused it."""
    errors: Sequence[str]
    """Sentences, each with the JSON path it is about."""
    raw: bytes | None
    """The record's value as it came."""
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    """The record's own."""


@dataclass(frozen=True, slots=True)
class Undelivered:
    """A record that a pipeline could not deliver: whole, and whose trouble it was."""

    pipeline: str
    edition: int
    rejection: Rejection
    """Why, and the record with its place in the source."""
    stage: str = ""
    """Which stage has refused it; empty: it did not come to one."""
    id: str = ""
    """Of the page, where it could be read."""

    @property
    def name(self) -> str:
        """Its key on the topic: the same however often it is told."""
        place = self.rejection
        where = f"{place.topic}-{place.partition}-{place.offset}"
        return f"{self.pipeline}:{self.edition}:{where}"
