"""Result of a fetched page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawlstream.model.crawl import CrawlKey, FiringKey

Headers = Mapping[bytes, Sequence[bytes]]
"""Values of all headers, as they were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlResult:
    """Request, response, and the page's place in its crawl."""

    id: str
    """Permanent name of the entry (``model.url.entry_id``); also the key of its record."""
    crawl: CrawlKey
    run: int
    attrs: Mapping[str, object] | None
    url: str
    """Requested URL; a seed keeps its fragment."""
    response_url: str
    status_code: int
    request_headers: Headers
    response_headers: Headers
    body: bytes
    """Body after content decoding."""
    encoding: str | None
    """Python's name of the detected charset; None: the page is not text."""
    links: Sequence[tuple[str, str]]
    """URL and text of each link that passed the filters; empty at the maximum depth."""
    timestamp: float
    """Time at which the response was complete, in epoch seconds."""
    depth: int
    seed_url: str
    attempt: int
    """Number of the attempt, from 1; starts again on the target of a redirect."""
    latency_ms: int
    """Milliseconds from sending the request to the last byte."""
    ip: str | None
    """IP address that answered, if known."""
    parent_url: str | None = None
    redirect_urls: Sequence[str] = ()
    uuid: str | None = None
    recovered: bool = False
    """True if the crawl restarted from its seeds after Redis was lost."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""
    lastmods: Sequence[str] = ()
    """Last change of each link according to a sitemap; "" if not given."""
    method: str = "GET"
    proxy: Mapping[str, str] | None = None
    """Proxy of the response: its ``pool`` and ``id``."""
    tls_profile: str | None = None
    """TLS profile of the request; None: the default one."""
    render: Mapping[str, object] | None = None
    """Costs of rendering it in a browser: see ``docs/wire.md``."""
    incomplete: bool = False
    """True if the compressed body breaks off before its end."""
    body_ref: str | None = None
    """URL of the whole body if the record has only its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLimits:
    """Limits to which a result is cut to fit its record."""

    max_body_bytes: int = 4 * 1024 * 1024
    """Bytes of a body, before encoding as text or base64."""
    max_record_bytes: int = 8 * 1024 * 1024 - 64 * 1024
    """Bytes of the JSON: maximum record size of the topics, minus room for key and headers."""
    base64_always: bool = False
    """Send text as base64 too (KAFKA_BASE_64_ENCODE)."""
