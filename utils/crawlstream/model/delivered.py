"""A result as a reader gets it: all fields of its record, typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, Final

from crawlstream.model.result import AsSent, PageFields, page_fields

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
class Delivered(PageFields):
    """Page, redirect or error that a site answered with.

    Fields that a record lacks are None or empty; unknown fields are in ``extra``. A field has the
    meaning of its column annotated to it; fields without a meaning have no column.
    """

    id: Annotated[str, "id of the page"]
    """Id of the page, equal in repeated deliveries; 32 hex digits in records."""
    appid: Annotated[str, "application"]
    crawlid: Annotated[str, "crawl"]
    spiderid: Annotated[str, "spider"] = "link"
    run: Annotated[int, "run of the crawl"]
    url: Annotated[str, "requested URL"]
    response_url: Annotated[str, "URL of the response"]
    status_code: Annotated[int, "HTTP status"]
    timestamp: Annotated[datetime, "time of the response"]
    """Time at which the response was complete; aware, UTC."""
    body: Annotated[bytes, "body as sent, decompressed"]
    """Body from the site after content decoding; only its beginning if ``body_truncated``."""
    body_size: Annotated[int, "size of the whole body"]
    """Bytes of the whole body."""
    body_truncated: Annotated[bool, "body is cut"] = False
    body_ref: Annotated[str | None, "URL of the whole body"] = None
    digest: Annotated[str | None, "`sha256:` of the whole body"] = None
    """``sha256:`` and the hash of the whole body in hex; None in records of earlier versions."""
    encoding: Annotated[str | None, "charset; `binary`: not text"] = None
    """Python's name of the charset; ``binary`` if the page is not text."""
    attrs: Annotated[Mapping[str, object] | None, "attrs of the request"] = None
    depth: Annotated[int, "links from the seed"] = 0
    seed_url: Annotated[str | None, "URL of the seed"] = None
    attempt: Annotated[int, "attempts at the page"] = 1
    request_headers: Annotated[TextHeaders, "as sent"] = field(default_factory=dict)
    response_headers: Annotated[TextHeaders, "as received"] = field(default_factory=dict)
    links: Annotated[Sequence[tuple[str, str]], "links that passed the filters"] = ()
    lastmods: Sequence[str] = ()
    """Last change of each link according to sitemaps and feeds; () if none is given."""
    links_truncated: Annotated[bool, "links are missing"] = False
    headers_truncated: bool = False
    latency_ms: Annotated[int | None, "duration of the download"] = None
    ip: Annotated[str | None, "address of the site"] = None
    as_sent: AsSent | None = None
    """Response as its site sent it; None: the crawl does not keep it, or its body was left out."""
    screenshot_body: bytes | None = None
    """PNG of ``screenshot``; None: there is none, or it is in the body store."""
    extra: Annotated[Mapping[str, object], "all other fields"] = field(default_factory=dict)

    @property
    def is_incomplete(self) -> bool:
        """Return whether the site's compressed body breaks off before its end."""
        return self.extra.get("incomplete") is True

    @property
    def is_page(self) -> bool:
        """Return whether it is a page of the crawl, and not a requisite or redirect of one."""
        return "kind" not in self.extra

    @property
    def mime(self) -> str:
        """Return the media type that the site names; see ``mime_of``."""
        headers = self.response_headers.items()
        return mime_of([",".join(vs) for name, vs in headers if name.lower() == "content-type"])


def mime_of(said: Sequence[str]) -> str:
    """Return the media type of headers ``Content-Type``, in lower case; empty if there is none.

    If there are several, also in one header that a proxy has merged, it is the last one that can be
    parsed, as in browsers.
    """
    found = [each for each in _TYPE.findall(",".join(said)) if each != "*/*"]
    return found[-1].lower() if found else ""


PAGE_FIELDS = page_fields(Delivered)
"""Fields of a page, keyed by their names: type, default, and meaning of the column."""


def is_xhtml(body: bytes) -> bool:
    """Return whether the first element of XML is ``html`` in the namespace of XHTML.

    Browsers show such XML as a page, so it has links and a title.
    """
    return _ROOT.match(body[:_LOOKED_AT]) is not None
