"""What the links of one page lead to: resolved as browsers do it, by the URL Standard.

A plain reference takes a short cut: it only follows the origin or the folder of its page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from scrapy.http import HtmlResponse

from crawlstream.model.web.address import output_charset, resolved

_SCHEME = re.compile(r"[\x00-\x20]*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_FOR_OTHERS = re.compile(r"[\x00-\x20]*(?!(?:https?|ftp|file):)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WEB = ("http", "https")

_SEGMENT = r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*"
_PLAIN = re.compile(
    rf"(?:/|/?{_SEGMENT}(?:/{_SEGMENT})*/?)(?:\?[A-Za-z0-9_.&=-]+)?(?:#[A-Za-z0-9_.~-]+)?"
)
"""A path without dots to resolve, perhaps with a query and a fragment."""


class Hrefs:
    """Resolves the references of one page."""

    __slots__ = ("_base", "_charset", "_folder", "_origin")

    def __init__(self, response: HtmlResponse, root: Any, markup: str) -> None:
        """``root`` is the tree of the page, ``markup`` the text that it was made of."""
        self._base = base_of(response.url, root, markup)
        self._charset = output_charset(response.encoding)
        self._folder = resolved(self._base, ".") or ""
        self._origin = (resolved(self._base, "/") or "")[:-1]

    def resolve(self, href: str) -> str | None:
        """Return the address of a reference, with its fragment; None where it leads nowhere."""
        if self._folder and _PLAIN.fullmatch(href):
            return (self._origin if href[0] == "/" else self._folder) + href
        return resolved(self._base, href, self._charset)


def refusal_of(reference: str) -> str:
    """Return the reason, under ``filtered``, of a reference that leads nowhere."""
    scheme = _SCHEME.match(reference)
    return "url" if scheme is None or scheme[1].lower() in _WEB else "scheme"


def refusals_of(href: str) -> Sequence[str]:
    """Return the same of a link; nothing for one that is for another program (``mailto:``)."""
    return () if _FOR_OTHERS.match(href) else (refusal_of(href),)


def base_of(url: str, root: Any, markup: str) -> str:
    """Return what the references of a page at a URL are relative to: its first base element.

    One that leads nowhere counts as none. Few pages have any, which their text says sooner than
    their tree does.
    """
    if "<base" not in markup.lower():
        return url
    for element in root.iter("base"):
        if (href := element.get("href")) is not None:
            return resolved(url, href) or url
    return url
