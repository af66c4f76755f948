"""Decisions on links by the verdicts on their families: followed, put last, or refused.

They depend on the URL and the verdicts alone, so a page that is fetched again has the same links.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple
from zlib import crc32

from crawling.quality.address_parts import host_hash, place_of
from crawling.quality.family import PARAMETER
from crawling.quality.parameter_rules import ParameterRules
from crawlstream.model.url import host_of
from crawlstream_frontier.waste.families import FamilyState
from crawlstream_frontier.waste.verdicts import SiteVerdicts, exception_of
from crawlstream_frontier.waste.votes import HOST, SitePlace

_SEARCHES = frozenset({"q", "s", "query", "search", "keyword", "keywords", "text"})
"""Usual names of the parameter with the words of a search, whose pages are without number."""
_TRIED, _TRIED_AT = 64, 1
"""Number of links into a refused family of which one is put last, so that verdicts are checked."""
_OPEN, _REFUSED = FamilyState.OPEN, FamilyState.REFUSED
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


def decide(
    url: str,
    verdicts: SiteVerdicts | None,
    main_host: str,
    rules: ParameterRules | None = None,
    *,
    is_last: bool = False,
) -> LinkDecision:
    """Return the decision on an address without fragment.

    ``main_host`` is the name of the site's main host; empty: it is not known. Parameters that the
    ``rules`` keep do not count. ``is_last``: unless a person allows one of its families, it waits
    until nothing else does.
    """
    if verdicts is None:
        return LinkDecision(url, is_last=is_last or _is_search(url, rules, None))
    clean = _without_waste(url, verdicts, main_host, rules)
    place = place_of(clean)
    state, family = verdicts.worst(_judged(place, rules))
    if state is _REFUSED and not _is_tried(url, family, verdicts):
        return LinkDecision(clean, refused=reason_of(family), family=family)
    is_last = is_last and not any(map(verdicts.allows, place.families))
    is_last = is_last or state is not _OPEN or _is_search(clean, rules, verdicts)
    return LinkDecision(clean, is_last=is_last)


class LinkJudge:
    """Decides on the links of one page, which are addresses without fragment."""

    def __init__(
        self,
        is_of_site: Callable[[str], bool],
        verdicts: SiteVerdicts | None,
        main_host: str,
        rules: ParameterRules | None,
        *,
        is_error: bool = False,
    ) -> None:
        """``is_of_site``: whether an address is of the site of the page; others are followed.

        ``is_error``: the page is one that the site shows for pages that do not exist.
        """
        self._is_of_site = is_of_site
        self._verdicts = verdicts
        self._main_host = main_host
        self._rules = rules
        self._is_error = is_error

    def follows_all(self, links: Iterable[str]) -> bool:
        """Return whether all links, as the page has them, are certain to be followed as they are.

        Where nothing is decided about a site, only searches are put last, and they have a query.
        """
        if self._is_error or self._verdicts is not None:
            return False
        return not any("?" in link for link in links)

    def __call__(self, url: str) -> LinkDecision:
        """Return the decision on a link."""
        if not self._is_of_site(url):
            return LinkDecision(url)
        return decide(url, self._verdicts, self._main_host, self._rules, is_last=self._is_error)


def reason_of(family: str) -> str:
    """Return the reason by which URLs of a family are refused."""
    return _REASONS.get(family) or _REASONS.get(family[:1]) or "guard_path"


def _without_waste(
    url: str, verdicts: SiteVerdicts, main_host: str, rules: ParameterRules | None
) -> str:
    """Return a URL without what does not matter; a few keep it, for the evidence."""
    if not verdicts.dropped:
        return url
    address, _, query = url.partition("?")
    pairs: list[int] = []
    kept: list[str] = []
    for argument in query.split("&") if query else ():
        name, equals, _value = argument.partition("=")
        is_judged = equals and not (rules and rules.keeps(name))
        equal = verdicts.equal_pairs(PARAMETER + name) if is_judged else None
        if equal is None:
            kept.append(argument)
        else:
            pairs.append(equal)
    host = host_of(url)
    if main_host and verdicts.drops_host and host_hash(host) != verdicts.main:
        pairs.append(verdicts.equal_pairs(HOST) or 0)
        scheme, _, rest = address.partition("://")
        address = f"{scheme}://{rest.replace(host, main_host, 1)}"
    if not pairs or _sample_of(url) % exception_of(min(pairs)) == 0:
        return url
    return f"{address}?{'&'.join(kept)}" if kept else address


def _is_tried(url: str, family: str, verdicts: SiteVerdicts) -> bool:
    return _sample_of(url) % _TRIED == _TRIED_AT and not verdicts.is_sure(family)


def _sample_of(url: str) -> int:
    return crc32(url.encode(errors="surrogatepass")) >> 4


def _judged(place: SitePlace, rules: ParameterRules | None) -> SitePlace:
    """Return a place without the families of parameters that are kept."""
    if rules is None:
        return place
    kept = [name for name in place.families if name[:1] == PARAMETER and rules.keeps(name[1:])]
    families = tuple(name for name in place.families if name not in kept)
    return place._replace(families=families) if kept else place


def _is_search(url: str, rules: ParameterRules | None, verdicts: SiteVerdicts | None) -> bool:
    if "?" not in url:
        return False
    names = {each.partition("=")[0] for each in url.partition("?")[2].split("&")}
    return any(
        not (rules and rules.keeps(name)) and not (verdicts and verdicts.allows(PARAMETER + name))
        for name in names & _SEARCHES
    )
