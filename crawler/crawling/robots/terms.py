"""Files of sites about uses of their pages: ``tdmrep.json`` (TDMRep) and licenses (RSL 1.0).

Paths are compared as in rules of robots.txt. Of ``tdmrep.json`` the first rule that matches counts,
of a license the terms with the longest path. A file that cannot be read, or is larger or deeper
than any that is meant, says nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from lxml import etree

from crawling.page.statements import TDM_POLICY, TDM_RESERVATION, Statement, reservation, terms
from crawling.robots.preferences import Preference, path_of, preference
from crawlstream.errors import InvalidUrl
from crawlstream.model.url import origin_of
from crawlstream.model.web.address import MAX_URL_LENGTH, address, resolved
from crawlstream.wire import jsontext

MOST_BYTES = 256 * 1024
"""Bytes of a file."""
MOST_RULES = 1000
MOST_ELEMENTS = 10_000
_MOST_LEVELS = 4
_MOST_WILDCARDS = 16
"""Wildcards of a path: each is looked for in the path of each page."""
_RSL = "{https://rslstandard.org/rsl}"
_HOST = re.compile(r"(https?://[^/?#*$]+)(.*)", re.IGNORECASE | re.DOTALL)
_APART = re.compile(r"[\s,]+")


class SiteRule(NamedTuple):
    """Statements about the pages below a path."""

    first: Preference
    more: Sequence[Statement] = ()


@dataclass(frozen=True, slots=True)
class SiteTerms:
    """Rules of one file."""

    rules: Sequence[SiteRule]
    size: int
    """Bytes of the file."""
    are_ordered: bool
    """True if the first rule that matches counts; else those with the longest path do."""

    def about(self, url: str) -> Sequence[Statement]:
        """Return what it says of a page."""
        path = path_of(url)
        matching = (rule for rule in self.rules if rule.first.covers(path))
        if self.are_ordered:
            found = list(islice(matching, 1))
        else:
            every = list(matching)
            longest = max((rule.first.length for rule in every), default=0)
            found = [rule for rule in every if rule.first.length == longest]
        said = (each for rule in found for each in (rule.first.statement, *rule.more))
        return [each for each in said if each.value]


def tdm_terms(text: bytes, origin: str) -> SiteTerms | None:
    """Return the rules of a ``tdmrep.json`` of an origin; None: it has none."""
    try:
        listed: Any = jsontext.loads(text)
    except ValueError:
        return None
    if not isinstance(listed, list) or len(listed) > MOST_RULES or _is_deep(listed, _MOST_LEVELS):
        return None
    rules = [rule for each in listed if isinstance(each, dict) for rule in _tdm_rule(each, origin)]
    return SiteTerms(rules, len(text), are_ordered=True) if rules else None


def _tdm_rule(told: dict[str, Any], origin: str) -> Iterator[SiteRule]:
    path, is_reserved, policy = map(told.get, ("location", TDM_RESERVATION, TDM_POLICY))
    if not (isinstance(path, str) and path[:1] in {"/", "*"} and _is_plain(path)):
        return
    if type(is_reserved) is not int:  # JSON's true equals 1.
        return
    more: Sequence[Statement] = ()
    if isinstance(policy, str) and (url := resolved(origin, policy)):
        more = [Statement("file", TDM_POLICY, url)]
    for statement in reservation("file", TDM_RESERVATION, str(is_reserved)):
        yield SiteRule(preference(statement, _octets(path)), more)


def rsl_terms(text: bytes, origin: str) -> SiteTerms | None:
    """Return the terms of a license about pages of an origin; None: it has none."""
    root = _xml(text)
    if root is None or root.tag != f"{_RSL}rsl":
        return None
    rules: list[SiteRule] = []
    for content in islice(root.iterchildren(f"{_RSL}content"), MOST_RULES):
        path = _path_in(content.get("url") or "", origin)
        if path is not None and _is_plain(path):
            rules += (SiteRule(preference(each, _octets(path))) for each in _licenses(content))
    return SiteTerms(rules, len(text), are_ordered=False) if rules else None


def _licenses(content: Any) -> Iterator[Statement]:
    """Yield the statement of each license of some content."""
    for each in content.iterchildren(f"{_RSL}license"):
        payments = each.iterchildren(f"{_RSL}payment")
        is_free = not content.get("server") and all(one.get("type") == "free" for one in payments)
        yield terms(_uses(each, "permits"), _uses(each, "prohibits"), is_free=is_free)


def _uses(terms_: Any, verb: str) -> Sequence[str]:
    found = (
        _APART.split((each.text or "").lower())
        for each in terms_.iterchildren(f"{_RSL}{verb}")
        if each.get("type") == "usage"
    )
    return [word for words in found for word in words if word]


def _path_in(url: str, origin: str) -> str | None:
    """Return the path of a pattern of URLs; None: it is not about this origin."""
    if not (match := _HOST.fullmatch(url)):
        return url if url.startswith(("/", "*")) else None
    try:
        is_own = origin_of(address(f"{match[1]}/")) == origin
    except InvalidUrl:
        return None
    return (match[2] or "/") if is_own else None


def _xml(text: bytes) -> Any:
    """Return the root of a document without a DOCTYPE; None: it is none, or too large."""
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    if b"<!DOCTYPE" in text.replace(b"\0", b""):  # UTF-16: half NUL.
        return None
    try:
        root: Any = etree.fromstring(text, parser)
    except (etree.LxmlError, ValueError):
        return None
    is_large = sum(1 for _ in islice(root.iter(), MOST_ELEMENTS + 1)) > MOST_ELEMENTS
    return None if is_large or root.getroottree().docinfo.doctype else root


def _is_deep(value: object, levels: int) -> bool:
    """Return whether JSON has more levels of lists and objects."""
    if not isinstance(value, list | dict):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return not levels or any(_is_deep(each, levels - 1) for each in inner)


def _is_plain(path: str) -> bool:
    return len(path) <= MAX_URL_LENGTH and path.count("*") <= _MOST_WILDCARDS


def _octets(path: str) -> bytes:
    return path.encode("utf-8", "replace")
