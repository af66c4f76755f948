"""What happened to a crawl or a page, and what could not take effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey

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


Event = PageFailed | CrawlEvent


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
