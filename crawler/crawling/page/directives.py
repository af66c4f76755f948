"""Directives of a page to crawlers: ``X-Robots-Tag`` and ``<meta name="robots">``.

Source: https://developers.google.com/search/docs/crawling-indexing/robots-meta-tag; other search
engines agree with it on what is read here. Directives for all crawlers and those for one product
token add up, and the stricter one holds. Ambiguous markup has the stricter of its meanings: at
worst a site has less made of its own pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from math import inf

from scrapy.http import Response

from crawling.page.head import Head, head_of

_PLAIN = ("noindex", "nofollow", "noarchive", "nosnippet", "notranslate", "noimageindex")
_DATE = "unavailable_after"
_WITH_VALUE = (_DATE, "max-snippet", "max-image-preview", "max-video-preview")
_ORDER = {name: place for place, name in enumerate(_PLAIN + _WITH_VALUE)}
"""Order of delivery; all others come last."""
_MEANS = {"none": ("noindex", "nofollow"), "nocache": ("noarchive",)}
_SAYS_NOTHING = frozenset({"all", "follow", "index"})
_OF_AI = frozenset({"noai", "noimageai"})
_NO_AGENTS = frozenset({*_ORDER, *_MEANS, *_SAYS_NOTHING, *_OF_AI})
"""Words before a colon that name no agent."""

_SEPARATORS = re.compile("[,;]")
_DATE_IN_LINE = re.compile(r"unavailable_after\s*:[^,;]*(?:,\s*[0-9][^,;]*)*")
"""A date may have commas: a piece that begins with a digit belongs to it."""
_COMMA = "\0"
"""Replaces one of a date."""
_WORD = re.compile(r"[a-z_-]{1,32}")
_AGENT = re.compile(r"\*|[a-z0-9._-]{1,64}")
_NUMBER = re.compile(r"-?[0-9]{1,9}")
_IMAGES = {"none": 0.0, "standard": 1.0, "large": inf}
_MOST = 16
"""Directives of a page."""
_LONGEST = 16 * 1024
"""Characters of all headers, or of all elements, that are read."""


@dataclass(frozen=True, slots=True)
class Directives:
    """Requests of a page to crawlers."""

    texts: Sequence[str] = ()
    """Form of results: ``("noindex", "max-snippet=20", "unavailable_after=1277506800")``."""

    @property
    def nofollow(self) -> bool:
        """Return whether the links of the page are not to be followed."""
        return "nofollow" in self.texts


NO_DIRECTIVES = Directives()


def directives_of(response: Response, token: str, head: Head | None = None) -> Directives:
    """Return the directives of a response to crawlers in general and to a product token.

    ``head`` is that of the page, if it was made before.
    """
    token = token.lower()
    found: dict[str, str] = {}
    if b"X-Robots-Tag" in response.headers:
        lines = response.headers.getlist(b"X-Robots-Tag")
        for agent, name, value in _statements(line.decode("latin-1") for line in lines):
            if agent in {"", "*", token}:
                _add(name, value, found)
    head = head or head_of(response)
    if head and (b"robots" in head.letters or _names(head, token)):
        metas = (content for _, content in head.metas({"robots", token or "robots"}))
        for _agent, name, value in _statements(metas):
            _add(name, value, found)
    return Directives(_texts(found)) if found else NO_DIRECTIVES


def obeys(policy: str, wish: str | None) -> bool:
    """Return whether a crawl obeys directives, by the operator's policy and its own wish."""
    return policy == "always" or (wish or policy) == "obey"


def _statements(texts: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield agent, name and value of each directive of some lines, as far as they may be read.

    An agent before a colon holds for the rest of its line.
    """
    left = _LONGEST
    for text in texts:
        yield from _in_line(_within(text, left).lower())
        left -= len(text) + 1
        if left <= 0:
            return


def _within(text: str, most: int) -> str:
    """Return the whole pieces of a line that has more than ``most`` characters."""
    if len(text) <= most:
        return text
    return text[: max(text.rfind(",", 0, most), text.rfind(";", 0, most), 0)]


def _in_line(line: str) -> Iterator[tuple[str, str, str]]:
    agent = ""
    for piece in _SEPARATORS.split(_DATE_IN_LINE.sub(_without_commas, line)):
        word, colon, rest = _divided(piece)
        if colon and _is_agent(word):
            agent = word
            word, colon, rest = _divided(rest)
        if colon and word in _WITH_VALUE:
            yield agent, word, rest.replace(_COMMA, ",").strip()
        elif not word.startswith("max-"):
            for each in _words(word):
                yield agent, each, ""


def _without_commas(date: re.Match[str]) -> str:
    return date[0].replace(",", _COMMA)


def _is_agent(word: str) -> bool:
    is_directive = word in _NO_AGENTS or word.startswith("max-")
    return not is_directive and _AGENT.fullmatch(word) is not None


def _divided(piece: str) -> tuple[str, str, str]:
    """Return the word of a piece, and what stands behind its colon."""
    head, colon, rest = piece.partition(":")
    return head.strip(), colon, rest


def _words(text: str) -> Sequence[str]:
    """Return a word, or several known ones with spaces between them; nothing of any other text."""
    if _WORD.fullmatch(text):
        return [text]
    words = text.split()
    return words if all(word in _NO_AGENTS for word in words) else []


def _add(name: str, value: str, found: dict[str, str]) -> None:
    """Add a directive; of several dates and numbers the strictest, which is the least, holds."""
    if name == _DATE:
        value = _seconds(value)
    if name in _WITH_VALUE:
        rank = _rank(name, value)
        if rank is not None and (name not in found or rank < (_rank(name, found[name]) or 0)):
            found[name] = value
        return
    for each in _MEANS.get(name, (name,)):
        if each not in _SAYS_NOTHING:
            found[each] = ""


def _rank(name: str, value: str) -> float | None:
    """Return how much a value allows; None if it cannot be read."""
    if name == "max-image-preview":
        return _IMAGES.get(value)
    if name == _DATE:
        return int(value) if value else None
    if not _NUMBER.fullmatch(value):
        return None
    return inf if value == "-1" else int(value)


def _seconds(date: str) -> str:
    """Return a date in epoch seconds; empty if it cannot be read."""
    date = date.strip()[:64].upper()
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(date)
            return str(int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()))
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return ""


def _texts(found: Mapping[str, str]) -> Sequence[str]:
    names = sorted(found, key=lambda name: _ORDER.get(name, len(_ORDER)))[:_MOST]
    return tuple(f"{name}={found[name]}" if found[name] else name for name in names)


def _names(head: Head, token: str) -> bool:
    return bool(token) and token.encode("latin-1", "replace") in head.letters
