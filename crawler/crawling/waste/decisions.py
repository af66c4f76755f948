"""Decisions on links by the verdicts on their families: followed, put last, or refused.

They depend on the URL and the verdicts alone, so a page that is fetched again has the same links.
"""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from crawling.quality.address_parts import host_hash, place_of
from crawling.quality.family import PARAMETER
from crawlstream.model.url import host_of
from crawlstream_frontier.waste.families import FamilyState
from crawlstream_frontier.waste.verdicts import SiteVerdicts, exception_of
from crawlstream_frontier.waste.votes import HOST

_SEARCHES = frozenset({"q", "s", "query", "search", "keyword", "keywords", "text"})
"""Usual names of the parameter with the words of a search, whose pages are without number."""
_TRIED, _TRIED_AT = 64, 1
"""Number of links into a refused family of which one is put last, so that verdicts are checked."""
_REASONS = {HOST: "guard_host", PARAMETER: "guard_parameter"}


class LinkDecision(NamedTuple):
    """LinkDecision on one link."""

    url: str
    """Its URL without parameters and host that do not matter."""
    is_last: bool = False
    """True if it waits until nothing else of its domain waits."""
    refused: str | None = None
    """Reason under ``filtered``; None: it is followed."""
    family: str = ""
    """Name of the refused family."""


def decide(url: str, verdicts: SiteVerdicts | None, main_host: str) -> LinkDecision:
    """Return the decision on an address without fragment.

    ``main_host`` is the name of the site's main host; empty: it is not known.
    """
    if verdicts is None:
        return LinkDecision(url, is_last=_is_search(url))
    sample = crc32(url.encode(errors="surrogatepass")) >> 4
    clean = _without_waste(url, verdicts, main_host, sample)
    state, family = verdicts.worst(place_of(clean))
    if state is FamilyState.REFUSED and sample % _TRIED != _TRIED_AT:
        return LinkDecision(clean, refused=reason_of(family), family=family)
    return LinkDecision(clean, is_last=state > FamilyState.OPEN or _is_search(clean))


def reason_of(family: str) -> str:
    """Return the reason by which URLs of a family are refused."""
    return _REASONS.get(family) or _REASONS.get(family[:1]) or "guard_path"


def _without_waste(url: str, verdicts: SiteVerdicts, main_host: str, sample: int) -> str:
    """Return a URL without what does not matter; a few keep it, for the evidence."""
    if not verdicts.dropped:
        return url
    address, _, query = url.partition("?")
    pairs: list[int] = []
    kept: list[str] = []
    for argument in query.split("&") if query else ():
        name, equals, _value = argument.partition("=")
        equal = verdicts.equal_pairs(PARAMETER + name) if equals else None
        if equal is None:
            kept.append(argument)
        else:
            pairs.append(equal)
    host = host_of(url)
    if main_host and verdicts.drops_host and host_hash(host) != verdicts.main:
        pairs.append(verdicts.equal_pairs(HOST) or 0)
        scheme, _, rest = address.partition("://")
        address = f"{scheme}://{rest.replace(host, main_host, 1)}"
    if not pairs or sample % exception_of(min(pairs)) == 0:
        return url
    return f"{address}?{'&'.join(kept)}" if kept else address


def _is_search(url: str) -> bool:
    _, _, query = url.partition("?")
    return bool(query) and any(each.partition("=")[0] in _SEARCHES for each in query.split("&"))
