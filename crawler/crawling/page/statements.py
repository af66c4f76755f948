"""Statements of sites about uses of their pages, as their formats have them.

``Content-Usage`` is the dictionary of the drafts of the IETF's working group AIPREF; as its
vocabulary is still changing, words that are not known are kept and mean nothing.
``Content-Signal`` has ``yes`` and ``no``; ``tdm-reservation`` is TDMRep's. What cannot be read says
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

import http_sf

from crawlstream.model.web.purposes import USES

CONTENT_USAGE, CONTENT_SIGNAL, LICENSE = "content-usage", "content-signal", "license"
TDM_RESERVATION, TDM_POLICY, RSL = "tdm-reservation", "tdm-policy", "rsl"

_ALSO = {"ai-train": "train-ai", "ai-use": "ai-input"}
"""Words of one format for what another one calls differently."""
_PARTS = {
    "ai-all": ("ai-train", "ai-input", "ai-index"),
    "all": ("search", "ai-train", "ai-input", "ai-index", "all"),
}
"""Words of RSL for several uses."""
_ANSWERS = {"yes": "y", "no": "n"}
_LONGEST_VALUE = 1024
"""Bytes of a value that is read."""
_MOST_LINKS = 64
_MOST_USES = 16
"""Uses of one page, apart from those that are known."""
_USE = re.compile(r"[a-z*][a-z0-9_.*-]{0,31}")
_REMEMBERED = 512
"""Values; a site says the same with each page."""

_LINK = re.compile(r'<([^<>]*+)>((?:[^<>",]|"(?:[^"\\]|\\.)*+")*+)', re.DOTALL)
_PARAMETER = re.compile(r';\s*+([a-z*]++)\s*+=\s*+(?:"([^"]*+)"|([^;"\s]*+))', re.IGNORECASE)

Uses = Mapping[str, str]
"""Answers by uses: ``y`` or ``n``."""
NO_USES: Uses = MappingProxyType({})


class Statement(NamedTuple):
    """Something that a site says, and where."""

    source: str
    """``header``, ``robots``, ``meta``, ``link`` or ``file``."""
    name: str
    value: str
    uses: Uses = NO_USES

    @property
    def refuses(self) -> bool:
        """Return whether it refuses a use."""
        is_reservation = self.name == TDM_RESERVATION and self.value == "1"
        return is_reservation or "n" in self.uses.values()

    @property
    def refuses_all(self) -> bool:
        """Return whether a license refuses all uses, those that have no word included."""
        return self.name == RSL and self.uses.get("all") == "n"


def usage(source: str, value: bytes) -> Iterator[Statement]:
    """Yield the statement of a ``Content-Usage``, without a path."""
    uses = _usage_of(value) if len(value) <= _LONGEST_VALUE else None
    if uses is not None:
        yield Statement(source, CONTENT_USAGE, value.decode("latin-1").strip(), uses)


def signal(source: str, value: bytes) -> Iterator[Statement]:
    """Yield the statement of a ``Content-Signal``."""
    text = value[:_LONGEST_VALUE].decode("latin-1").strip()
    uses: dict[str, str] = {}
    for pair in text.lower().split(","):
        use, _, answer = (part.strip() for part in pair.partition("="))
        if answer in _ANSWERS and _USE.fullmatch(use):
            _answer(use, _ANSWERS[answer], uses)
    if "=" in text:
        yield Statement(source, CONTENT_SIGNAL, text, uses)


def reservation(source: str, name: str, value: str) -> Iterator[Statement]:
    """Yield the statement of a ``tdm-reservation``, or of its policy."""
    value = value.strip()
    if value in {"0", "1"} if name == TDM_RESERVATION else value:
        yield Statement(source, name, value)


def terms(permitted: Sequence[str], prohibited: Sequence[str], *, is_free: bool) -> Statement:
    """Return the statement of an RSL license about uses.

    A permission that is not free allows nothing by itself.
    """
    uses: dict[str, str] = {}
    said: list[str] = []
    for verb, answer, words in (("prohibits", "n", prohibited), ("permits", "y", permitted)):
        known = [word for word in words if _USE.fullmatch(word)]
        said += [f"{verb} {', '.join(known)}"] if known else []
        for word in known if answer == "n" or is_free else ():
            for use in _PARTS.get(word, (word,)):
                _answer(use, answer, uses)
    return Statement("file", RSL, "; ".join(said)[:_LONGEST_VALUE], uses)


def licenses_linked(values: Iterable[bytes]) -> Iterator[str]:
    """Yield the targets of links to a license in ``Link`` headers, as they are written."""
    text = b", ".join(values)[: 16 * _LONGEST_VALUE].decode("latin-1")
    if LICENSE not in text.lower():
        return
    for link in islice(_LINK.finditer(text), _MOST_LINKS):
        told: dict[str, str] = {}
        for name, quoted, plain in _PARAMETER.findall(link[2]):
            told.setdefault(name.lower(), quoted or plain)
        if LICENSE in told.get("rel", "").lower().split() and "anchor" not in told:
            yield link[1]


def strictest(statements: Iterable[Statement]) -> dict[str, str]:
    """Return the answers of some statements together: a use that one refuses is refused."""
    found: dict[str, str] = {}
    for statement in statements:
        for use, answer in statement.uses.items():
            _answer(use, answer, found)
    return found


def _answer(use: str, answer: str, found: dict[str, str]) -> None:
    use = _ALSO.get(use, use)
    has_room = len(found) < _MOST_USES or use in found or use in USES
    if has_room and (answer == "n" or use not in found):
        found[use] = answer


@lru_cache(_REMEMBERED)
def _usage_of(value: bytes) -> Uses | None:
    """Return what a dictionary of RFC 9651 says of uses; None if it is none, or empty."""
    try:
        members: Any = http_sf.parse(value.strip(), tltype="dictionary")
    except (ValueError, RecursionError):
        return None
    uses: dict[str, str] = {}
    for use, member in members.items():
        answer = member[0]
        if isinstance(answer, http_sf.Token) and answer in {"y", "n"} and _USE.fullmatch(use):
            _answer(use, str(answer), uses)
    return MappingProxyType(uses) if members else None
