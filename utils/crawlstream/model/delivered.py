"""A result as a reader gets it: all fields of its record, typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

_TYPE = re.compile(r"(?:\A|,)[ \t]*([!#$%&'*+.^_`|~\w-]+/[!#$%&'*+.^_`|~\w-]+)[ \t]*(?=[;,]|\Z)")

XML: Final = frozenset({"application/xml", "text/xml"})
"""Media types that do not name the kind of XML."""
_LOOKED_AT = 4096
"""Bytes that are searched for the first element of XML; it is preceded by little text."""
_ROOT = re.compile(
    rb"(?:\xef\xbb\xbf)?(?:\s|<\?[^>]*>|<!--.*?-->|<!doctype[^>\[]*>)*+"
    rb"<html\s[^>]*?xmlns\s*=\s*[\"']http://www\.w3\.org/1999/xhtml[\"']",
    re.DOTALL | re.IGNORECASE,
)


TextHeaders = Mapping[str, Sequence[str]]
"""Values of all headers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """Page, redirect or error that a site answered with.

    Fields that a record lacks are None or empty; unknown fields are in ``extra``.
    """

    id: str
    """Id of the page, equal in repeated deliveries; 32 hex digits in records."""
    appid: str
    crawlid: str
    spiderid: str
    run: int
    url: str
    response_url: str
    status_code: int
    timestamp: datetime
    """Time at which the response was complete; aware, UTC."""
    body: bytes
    """Body from the site after content decoding; only its beginning if ``body_truncated``."""
    body_size: int
    """Bytes of the whole body."""
    body_truncated: bool = False
    body_ref: str | None = None
    digest: str | None = None
    """``sha256:`` and the hash of the whole body in hex; None in records of earlier versions."""
    encoding: str | None = None
    """Python's name of the charset; ``binary`` if the page is not text."""
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
    """Last change of each link according to sitemaps and feeds; () if none is given."""
    links_truncated: bool = False
    headers_truncated: bool = False
    latency_ms: int | None = None
    ip: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def is_incomplete(self) -> bool:
        """Return whether the site's compressed body breaks off before its end."""
        return self.extra.get("incomplete") is True

    @property
    def mime(self) -> str:
        """Return the media type that the site names, in lower case; empty if it names none.

        If there are several, also in one header that a proxy has merged, it is the last one that
        can be parsed, as in browsers.
        """
        headers = self.response_headers.items()
        said = [",".join(values) for name, values in headers if name.lower() == "content-type"]
        found = [each for each in _TYPE.findall(",".join(said)) if each != "*/*"]
        return found[-1].lower() if found else ""


def is_xhtml(body: bytes) -> bool:
    """Return whether the first element of XML is ``html`` in the namespace of XHTML.

    Browsers show such XML as a page, so it has links and a title.
    """
    return _ROOT.match(body[:_LOOKED_AT]) is not None
