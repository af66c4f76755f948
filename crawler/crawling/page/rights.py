"""Statements of a page and its site about uses of the page: the field ``rights`` of its result.

Statements of all sources add up, and the strictest about each use holds. A page that says nothing
costs three look-ups of headers, and a search of its head for two words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from scrapy.http import Response

from crawling.page.head import Head
from crawling.page.statements import (
    LICENSE,
    TDM_POLICY,
    TDM_RESERVATION,
    Statement,
    licenses_linked,
    reservation,
    strictest,
    usage,
)
from crawlstream.model.web.address import MAX_URL_LENGTH, resolved
from crawlstream.model.web.purposes import USES, reserves

_USAGE, _RESERVATION, _POLICY, _LINK = (
    b"Content-Usage",
    b"Tdm-Reservation",
    b"Tdm-Policy",
    b"Link",
)
"""Names of headers as Scrapy stores them."""
_MOST_SOURCES, _LONGEST_SOURCE = 16, 256
_MOST_USES = 16
_MOST_LICENSES = 8


class SiteSays(NamedTuple):
    """Statements of the files of a site about a page."""

    statements: Sequence[Statement]
    age_s: int | None
    """Seconds since the cluster has fetched robots.txt; None: that says nothing."""


def rights_of(
    response: Response, head: Head | None, site: SiteSays | None, purpose: str | None
) -> dict[str, Any] | None:
    """Return the rights of a page, for a crawl with a purpose; None without any statement."""
    headers, has = response.headers, dict.__contains__  # Its own method normalizes each name.
    in_headers = has(headers, _USAGE) or has(headers, _RESERVATION) or has(headers, _LINK)
    in_head = head is not None and (b"tdm-" in head.letters or b"license" in head.letters)
    if not (in_headers or in_head or site):
        return None
    statements = [*_in_headers(response)] if in_headers else []
    statements += site.statements if site else ()
    statements += _in_head(head) if in_head and head else ()
    if not statements:
        return None
    rights = _joined(response.url, statements, purpose)
    if site and site.age_s is not None:
        rights["robots_age_s"] = site.age_s
    return rights


def _joined(url: str, statements: Sequence[Statement], purpose: str | None) -> dict[str, Any]:
    found = strictest(statements)
    names = [*(use for use in USES if use in found), *(use for use in found if use not in USES)]
    uses = {use: found[use] for use in names[:_MOST_USES]}
    tdm, policy = _tdm(url, statements)
    listed = statements
    if len(statements) > _MOST_SOURCES:  # Keep those that refuse something.
        listed = sorted(statements, key=lambda each: not each.refuses)[:_MOST_SOURCES]
    licenses = dict.fromkeys(each.value for each in statements if each.name == LICENSE)
    return {
        "purpose": purpose,
        **({"reserved": _are_reserved(statements, uses, tdm, purpose)} if purpose else {}),
        "uses": uses,
        "tdm": tdm,
        "tdm_policy": policy,
        "licenses": [each for each in licenses if len(each) <= MAX_URL_LENGTH][:_MOST_LICENSES],
        "sources": [
            {"from": each.source, "name": each.name, "value": each.value[:_LONGEST_SOURCE]}
            for each in listed
        ],
    }


def _are_reserved(
    statements: Sequence[Statement], uses: dict[str, str], tdm: int | None, purpose: str
) -> bool:
    refuses_all = any(each.refuses_all for each in statements)
    return reserves(purpose, uses, tdm, refuses_all=refuses_all)


def _tdm(url: str, statements: Sequence[Statement]) -> tuple[int | None, str | None]:
    """Return reservation and policy: of the page itself, its headers, or the file of its site."""
    for source in ("meta", "header", "file"):
        some = [each for each in statements if each.source == source]
        said = [each.value for each in some if each.name == TDM_RESERVATION]
        if said:
            policies = (resolved(url, each.value) for each in some if each.name == TDM_POLICY)
            known = (each for each in policies if each and len(each) <= MAX_URL_LENGTH)
            return int(max(said)), next(known, None)
    return None, None


def _in_headers(response: Response) -> Iterator[Statement]:
    headers = response.headers
    yield from usage("header", b", ".join(headers.getlist(_USAGE)))
    for name, key in ((TDM_RESERVATION, _RESERVATION), (TDM_POLICY, _POLICY)):
        for value in headers.getlist(key)[:_MOST_SOURCES]:
            yield from reservation("header", name, value.decode("latin-1"))
    for target in licenses_linked(headers.getlist(_LINK)):
        if found := resolved(response.url, target):
            yield Statement("header", LICENSE, found)


def _in_head(head: Head) -> Iterator[Statement]:
    if b"tdm-" in head.letters:
        for name, content in head.metas({TDM_RESERVATION, TDM_POLICY}):
            yield from reservation("meta", name, content)
    if b"license" in head.letters:
        for target in head.links(LICENSE):
            yield Statement("link", LICENSE, target)
