"""What the links of one page point to: resolved as Scrapy does it, most of them by a short cut.

The long way joins, quotes and joins again, and the URL is canonicalized afterwards. Of a plain
reference that only puts a path behind an origin or a folder, and cuts off a fragment.
"""

from __future__ import annotations

import re
import string
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, Self
from urllib.parse import urljoin

from scrapy.http import HtmlResponse
from scrapy.utils.response import get_base_url
from w3lib.url import safe_url_string

from crawlstream.model.url import MAX_URL_LENGTH

_SCHEMES = ("http://", "https://", "file://", "ftp://")
"""What Scrapy lists; only the first two are followed."""

_HOST = r"[a-z0-9-]+(?:\.[a-z0-9-]+)*(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"
_ORIGIN = rf"https?://{_HOST}"
_SEGMENT = r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*"
_SEGMENTS = rf"{_SEGMENT}(?:/{_SEGMENT})*/?"
_QUERY = r"\?[A-Za-z0-9_-]+=[A-Za-z0-9_.-]+"
_NO_QUERY = r"\b\B"
_FRAGMENT = r"#[A-Za-z0-9_.~-]+"


class _Plain(NamedTuple):
    """What plain references look like."""

    url: re.Pattern[str]
    """Origin, path, query."""
    origin: re.Pattern[str]
    """At the beginning of a URL that is not plain."""
    href: re.Pattern[str]
    """Origin or only host, path; or steps up and the path from there; query; fragment."""

    @classmethod
    def with_query(cls, query: str) -> Self:
        """Where a plain query is this."""
        return cls(
            re.compile(rf"({_ORIGIN})(/(?:{_SEGMENTS})?)({query})?"),
            re.compile(_ORIGIN + r"(?=[/?#]|\Z)"),
            re.compile(
                rf"(?:((?:https?:)?//{_HOST})?(/(?:{_SEGMENTS})?)|((?:\.\./)*)({_SEGMENTS}))?"
                rf"({query})?({_FRAGMENT})?"
            ),
        )


_PLAIN = _Plain.with_query(_QUERY)
_PLAIN_BUT_QUERIES = _Plain.with_query(_NO_QUERY)
"""On pages in UTF-16, say: a query is sent in the encoding of its page."""

_ELSEWHERE = ("mailto:", "javascript:", "tel:", "data:")
"""The long way would lead out of the web, too."""

_HEAD = 4096
"""Scrapy looks for a base element in so many characters, with the comments taken out."""
_MAY_HAVE_BASE = re.compile(r"<base|<!--", re.IGNORECASE)

_LONGEST_HREF = 16 * MAX_URL_LENGTH
"""Longer ones are not even resolved: no crawl could follow them."""
_LONG_HOST = re.compile(r"[^/?#]*//[^/?#]{512}")
"""No host, with a port and in whatever letters, is so long; to encode one that is takes long."""


class Hrefs:
    """Resolves the references of one page."""

    __slots__ = ("_base", "_folder", "_origin", "_page", "_plain", "_query", "_response")

    def __init__(self, response: HtmlResponse, markup: str) -> None:
        """``markup`` is the text of the page, at least its head."""
        self._response = response
        self._plain = _PLAIN if _is_like_ascii(response.encoding) else _PLAIN_BUT_QUERIES
        self._base = base = _base_of(response, markup)
        self._page = self._folder = self._query = ""
        if plain := self._plain.url.fullmatch(base):
            self._origin, path, query = plain.groups()
            self._page, self._query = self._origin + path, query or ""
            self._folder = self._page[: self._page.rindex("/") + 1]
        else:
            origin = self._plain.origin.match(base)
            self._origin = origin[0] if origin else ""

    def resolve(self, href: str) -> tuple[str, str] | None:
        """The absolute URL of a reference and, of a plain one, the same in canonical form.

        That is the URL without its fragment; of one that is not plain it is empty. None where the
        reference leads nowhere. Space around it has been stripped.
        """
        if self._plain.url.fullmatch(href):
            return href, href
        if len(href) > _LONGEST_HREF:
            return None
        if (plain := self._plain.href.fullmatch(href)) and (clean := self._joined(plain)):
            fragment = plain[6]
            return (clean + fragment if fragment else clean), clean
        url = self._resolved_slowly(href)
        return (url, "") if url and url.startswith(_SCHEMES) else None

    def _joined(self, plain: re.Match[str]) -> str:
        """The canonical URL of a plain reference; empty where the base is not plain enough."""
        place, path, up, below, query, fragment = plain.groups()
        if path:
            origin = self._origin if place is None else self._with_scheme(place)
            clean = origin and origin + path
        elif below:
            folder = self._above(len(up) // 3) if up else self._folder
            clean = folder and folder + below
        elif query or fragment:
            clean = self._page and (self._page if query else self._page + self._query)
        else:
            return ""
        return clean + query if clean and query else clean

    def _with_scheme(self, place: str) -> str:
        """The origin that ``//host`` or ``https://host`` names."""
        if not place.startswith("//"):
            return place
        return self._origin and self._origin[: self._origin.index("/")] + place

    def _above(self, steps: int) -> str:
        """The folder so many steps up; empty where there are not so many."""
        folder = self._folder
        for _ in range(steps):
            folder = folder[: folder.rfind("/", 0, -1) + 1]
        return folder if len(folder) > len(self._origin) else ""

    def _resolved_slowly(self, href: str) -> str | None:
        """The long way, as Scrapy goes it; None where it leads nowhere."""
        if href.startswith(_ELSEWHERE):
            return None
        try:
            joined = urljoin(self._base, href)
            if _LONG_HOST.match(joined):
                return None
            quoted = safe_url_string(joined, encoding=self._response.encoding)
            return urljoin(self._response.url, quoted)
        except ValueError:
            return None


@lru_cache
def _is_like_ascii(encoding: str) -> bool:
    """Whether plain queries are the same bytes in it."""
    letters = string.ascii_letters + string.digits + "?=_.-"
    return letters.encode(encoding, "replace") == letters.encode()


def _base_of(response: HtmlResponse, markup: str) -> str:
    """What relative links are relative to; a base that is no URL counts as none."""
    if _MAY_HAVE_BASE.search(markup, 0, _HEAD) or not _PLAIN.url.fullmatch(response.url):
        with suppress(ValueError):
            return get_base_url(response)
    return response.url
