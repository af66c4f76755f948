"""References of one page, resolved as browsers resolve them, by the URL Standard.

A plain reference takes a short cut: it is a whole address, or it follows the origin, the folder or
the address of its page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

from crawlstream.model.web.address import output_charset, resolved

_SCHEME = re.compile(r"[\x00-\x20]*([a-z][a-z0-9+.-]*):", re.IGNORECASE)
_FOR_OTHERS = re.compile(r"[\x00-\x20]*(?!(?:https?|ftp|file):)[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_WEB = ("http", "https")

_SEGMENT = r"[A-Za-z0-9_~-][A-Za-z0-9_.~-]*"
_PLAIN = re.compile(
    rf"(?:/|/?{_SEGMENT}(?:/{_SEGMENT})*/?)(?:\?[A-Za-z0-9_.&=-]+)?(?:#[A-Za-z0-9_.~-]+)?"
)
"""A path without dots to resolve, perhaps with a query and a fragment."""
_ORIGIN = re.compile(r"https?://[a-z0-9.:-]+(?=/)")
_ORIGINS_REMEMBERED = 4096
_PLAIN_FRAGMENT = re.compile(r"#[A-Za-z0-9_.~-]+")


class Hrefs:
    """Resolves the references of one page."""

    __slots__ = ("_base", "_charset", "_folder", "_origin", "_page")

    def __init__(self, base: str, encoding: str) -> None:
        """``base`` is the address that they are relative to, ``encoding`` the page's."""
        self._base = base
        self._charset = output_charset(encoding)
        self._page = resolved(base, "") or ""
        self._folder = resolved(base, ".") or ""
        self._origin = self._folder[: self._folder.find("/", 8)]

    def resolve(self, href: str) -> str | None:
        """Return the address of a reference, with its fragment; None where it leads nowhere."""
        if self._folder and _PLAIN.fullmatch(href):
            return (self._origin if href[0] == "/" else self._folder) + href
        origin = _ORIGIN.match(href)
        if origin and _is_canonical(origin[0]) and _PLAIN.fullmatch(href, origin.end()):
            return href
        if self._page and _PLAIN_FRAGMENT.fullmatch(href):
            return self._page + href
        return resolved(self._base, href, self._charset)


@lru_cache(_ORIGINS_REMEMBERED)
def _is_canonical(origin: str) -> bool:
    """Return whether an origin is written as the Standard writes it, so that addresses have it."""
    return resolved(f"{origin}/", "/") == f"{origin}/"


def refusal_of(reference: str) -> str:
    """Return the reason, under ``filtered``, of a reference that leads nowhere."""
    scheme = _SCHEME.match(reference)
    return "url" if scheme is None or scheme[1].lower() in _WEB else "scheme"


def refusals_of(href: str) -> Sequence[str]:
    """Return the same of a link; nothing for one that is for another program (``mailto:``)."""
    return () if _FOR_OTHERS.match(href) else (refusal_of(href),)
