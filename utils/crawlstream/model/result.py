"""One fetched page on its way to the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crawlstream.model.crawl import CrawlKey, FiringKey

Headers = Mapping[bytes, Sequence[bytes]]
"""Every value of every header, as it stood on the wire."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlResult:
    """What was asked, what came back, and where in its crawl it stands."""

    id: str
    """The entry's name for ever (``model.url.entry_id``); also the key of its record."""
    crawl: CrawlKey
    run: int
    attrs: Mapping[str, object] | None
    url: str
    """What was requested; a seed keeps its fragment."""
    response_url: str
    status_code: int
    request_headers: Headers
    response_headers: Headers
    body: bytes
    """After content decoding."""
    encoding: str | None
    """Python's name of the charset that was detected; None: the page is not text."""
    links: Sequence[tuple[str, str]]
    """URL and text of each link that passed the filters; none at the last level of depth."""
    timestamp: float
    """When the response was there, in epoch seconds."""
    depth: int
    seed_url: str
    attempt: int
    """From 1; anew on the target of a redirect."""
    latency_ms: int
    """From the request's leaving to the last byte."""
    ip: str | None
    """The address that answered, where it is known."""
    parent_url: str | None = None
    redirect_urls: Sequence[str] = ()
    uuid: str | None = None
    recovered: bool = False
    """Whether the crawl began anew from its seeds after Redis was lost."""
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""
    lastmods: Sequence[str] = ()
    """When each of the links was changed last, as a sitemap says; "" where it does not."""
    method: str = "GET"
    proxy: Mapping[str, str] | None = None
    """``pool`` and ``id`` of the proxy that it came through."""
    tls_profile: str | None = None
    """The TLS profile that it was asked for with; None: the default one."""
    render: Mapping[str, object] | None = None
    """What a browser took to make it: see ``docs/wire.md``."""
    incomplete: bool = False
    """Whether the body that came breaks off before its end, in a content coding."""
    body_ref: str | None = None
    """URL of the whole body, where the record has only its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLimits:
    """How a result is cut to fit its record."""

    max_body_bytes: int = 4 * 1024 * 1024
    """Bytes of a body, before they become text or base64."""
    max_record_bytes: int = 8 * 1024 * 1024 - 64 * 1024
    """Bytes of the JSON: what topics are created for, less room for key and headers."""
    base64_always: bool = False
    """Send text as base64 too (KAFKA_BASE_64_ENCODE)."""
