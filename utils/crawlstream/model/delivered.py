"""One result as a reader gets it: every field of its record, typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

_TYPE = re.compile(r"(?:\A|,)[ \t]*([!#$%&'*+.^_`|~\w-]+/[!#$%&'*+.^_`|~\w-]+)[ \t]*(?=[;,]|\Z)")

XML: Final = frozenset({"application/xml", "text/xml"})
"""Media types that say nothing of what the XML is."""
_LOOKED_AT = 4096
"""Bytes in which the first element of XML begins; what stands before it is short."""
_ROOT = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<\?[^>]*>|<!--.*?-->|<!doctype[^>\[]*>)*+"
    rb"<html\s[^>]*?xmlns\s*=\s*[\"']http://www\.w3\.org/1999/xhtml[\"']",
    re.DOTALL | re.IGNORECASE,
)


TextHeaders = Mapping[str, Sequence[str]]
"""Every value of every header."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """A page, or the redirect or refusal that a site has answered with.

    What a record does not have is None, or empty; what is not known here is in ``extra``.
    """

    id: str
    """The same for the same page, however often it is delivered; in records 32 hex digits."""
    appid: str
    crawlid: str
    spiderid: str
    run: int
    url: str
    response_url: str
    status_code: int
    timestamp: datetime
    """When the response was there; aware, UTC."""
    body: bytes
    """As the site sent it, after content decoding; its beginning where ``body_truncated``."""
    body_size: int
    """Bytes of the whole of it."""
    body_truncated: bool = False
    body_ref: str | None = None
    digest: str | None = None
    """``sha256:`` and the hash of the whole body in hex; None in records of earlier versions."""
    encoding: str | None = None
    """Python's name of the charset; ``binary`` where the page is not text."""
    attrs: Mapping[str, object] | None = None
    depth: int = 0
    seed_url: str | None = None
    parent_url: str | None = None
    redirect_urls: Sequence[str] = ()
    attempt: int = 1
    uuid: str | None = None
    method: str = "GET"
    recovered: bool = False
    request_headers: TextHeaders = field(default_factory=dict)
    response_headers: TextHeaders = field(default_factory=dict)
    links: Sequence[tuple[str, str]] = ()
    lastmods: Sequence[str] = ()
    """Of each link when its page has changed, as sitemaps and feeds say; () where none says so."""
    links_truncated: bool = False
    headers_truncated: bool = False
    latency_ms: int | None = None
    ip: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_incomplete(self) -> bool:
        """Whether the site's compressed body breaks off before its end."""
        return self.extra.get("incomplete") is True

    @property
    def mime(self) -> str:
        """The media type that the site names, in lower case; empty if it names none.

        Of several, also in one header that a proxy has merged, it is the last that can be read, as
        browsers have it.
        """
        headers = self.response_headers.items()
        said = [",".join(values) for name, values in headers if name.lower() == "content-type"]
        found = [each for each in _TYPE.findall(",".join(said)) if each != "*/*"]
        return found[-1].lower() if found else ""


def is_xhtml(body: bytes) -> bool:
    """Return whether the first element of XML is ``html`` in the namespace of XHTML.

    Browsers show it as a page, so it has links and a title.
    """
    return _ROOT.match(body[:_LOOKED_AT]) is not None
