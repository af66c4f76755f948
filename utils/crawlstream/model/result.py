"""Result of a fetched page, and the fields that it has in common with what a reader gets."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, NamedTuple, get_args, get_type_hints

from crawlstream.model.crawl import CrawlKey, FiringKey


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFields:
    """Fields that most pages lack; the only list of them.

    Encoding, decoding, WARC files and columns follow it. Add new fields at the end: a record has
    a field only if it differs from its default, and its column comes after all others.
    """

    parent_url: Annotated[str | None, "page with the link"] = None
    redirect_urls: Annotated[Sequence[str], "redirects before"] = ()
    uuid: Annotated[str | None, "uuid of the request"] = None
    recovered: Annotated[bool, "crawl began again"] = False
    """True if the crawl restarted from its seeds after Redis was lost."""
    method: Annotated[str, "HTTP method"] = "GET"
    signed: Annotated[str | None, "key of its signature"] = None
    """Key that the request was signed with, by its thumbprint."""
    payment: Annotated[Mapping[str, object] | None, "price of the page"] = None
    """``price``, ``charged``, ``error`` and ``purse``; None if the site did not speak of money."""
    directives: Annotated[Sequence[str], "requests to crawlers"] = ()
    """Directives of its headers and its head: ``noindex``, ``max-snippet=20``, …"""
    dropped: Annotated[str | None, "why it has no body"] = None
    """Directive, or ``reserved``, by which its body was not kept."""
    rights: Annotated[Mapping[str, object] | None, "uses that its site allows"] = None
    """Statements about uses of it: see ``docs/wire.md``; None if there are none."""
    canonical: Annotated[str | None, "canonical URL, if another"] = None
    """Canonical URL that the page names, if that is not its own; where the waste guard watches."""
    text_signature: Annotated[str | None, "equal for equal text"] = None
    """``t1:`` and 64 bits as hex; None: the page has no text, or the waste guard is off."""
    sitemap: Annotated[bool, "sitemap of the crawl"] = False
    """True if it was read as a sitemap of a crawl with ``sitemaps``."""
    screenshot: Annotated[Mapping[str, object] | None, "screenshot of the page"] = None
    """Size and digest of its picture, or ``error``; None if its crawl does not want one."""


class PageField(NamedTuple):
    """Description of a field."""

    name: str
    type: Any
    """Type of its value if it has one."""
    default: Any
    """Value of a page whose record lacks the field; MISSING: every record must have it."""
    meaning: str
    """Meaning of its column; empty: it has none."""


def page_fields(page: type) -> Mapping[str, PageField]:
    """Return the fields of a dataclass by their names; their types are annotated with meanings."""
    hints = get_type_hints(page, include_extras=True)
    found = {}
    for each in fields(page):
        kind, meaning = hints[each.name], ""
        if metadata := getattr(kind, "__metadata__", ()):
            kind, meaning = kind.__origin__, metadata[0]
        options = [one for one in get_args(kind) if one is not type(None)]
        default = each.default if each.default_factory is MISSING else each.default_factory()
        has_none = type(None) in get_args(kind)
        found[each.name] = PageField(each.name, options[0] if has_none else kind, default, meaning)
    return found


OCCASIONAL: Mapping[str, Any] = {each.name: each.default for each in fields(PageFields)}
"""Defaults of the fields that most pages lack, keyed by their names."""


@dataclass(frozen=True, slots=True)
class AsSent:
    """Response as its site sent it, but for the framing of the message: chunks, or HTTP/2."""

    head: bytes
    """Status line and header lines, each with its line end; the empty line is left out."""
    body: bytes | None = None
    """Body before content decoding; None: it is the decoded one, or was too large to keep."""


Headers = Mapping[bytes, Sequence[bytes]]
"""Values of all headers, as they were sent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlResult(PageFields):
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
    firing: FiringKey | None = None
    """The latest firing of a schedule that has fed the run."""
    lastmods: Sequence[str] = ()
    """Last change of each link according to a sitemap; "" if not given."""
    proxy: Mapping[str, str] | None = None
    """Proxy of the response: its ``pool`` and ``id``."""
    tls_profile: str | None = None
    """TLS profile of the request; None: the default one."""
    render: Mapping[str, object] | None = None
    """Costs of rendering it in a browser: see ``docs/wire.md``."""
    guard: Mapping[str, object] | None = None
    """Number of links that the waste guard has ``refused``, by reason, or put ``last``."""
    incomplete: bool = False
    """True if the compressed body breaks off before its end."""
    body_ref: str | None = None
    """URL of the whole body if the record has only its beginning."""
    body_size: int | None = None
    """Bytes of a body that was not kept; None: those of ``body``."""
    digest: str | None = None
    """Digest of a body that was not kept; None: that of ``body``."""
    as_sent: AsSent | None = None
    """The response as its site sent it, if the crawl keeps it (``archive``)."""
    screenshot_body: bytes | None = None
    """PNG of ``screenshot``; None: there is none, or it is in the body store."""
    kind: str | None = None
    """Kind of record: ``REQUISITE`` or ``REDIRECT``; None: it is the result of a page."""
    requisites: Mapping[str, object] | None = None
    """Account of the requisites of the page: see ``docs/wire.md``; None: its crawl has none."""


REQUISITE, REDIRECT = "requisite", "redirect"


def digest_of(body: bytes) -> str:
    """Return the digest by which records name a body."""
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultLimits:
    """Limits to which a result is cut to fit its record."""

    max_body_bytes: int = 4 * 1024 * 1024
    """Bytes of a body, before encoding as text or base64."""
    max_record_bytes: int = 8 * 1024 * 1024 - 64 * 1024
    """Bytes of the JSON: maximum record size of the topics, minus room for key and headers."""
    base64_always: bool = False
    """Send text as base64 too (KAFKA_BASE_64_ENCODE)."""
