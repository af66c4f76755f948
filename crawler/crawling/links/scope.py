"""Scope: where a crawl may go. Links and redirects are judged here, by the same filters.

Filters apply neither to a seed, which a client has requested, nor to its redirects. The host at the
end of these redirects takes the place of the seed's host in ``allowed_domains``, for all pages
below (``Entry.moved_to``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from functools import lru_cache
from itertools import repeat

import structlog
from scrapy.linkextractors import IGNORED_EXTENSIONS

from crawling.links.blacklist import Blacklist
from crawling.links.patterns import OutOfTime, PatternBudget, Patterns
from crawling.page.page import Page
from crawlstream.model.crawl import Lease, Profile
from crawlstream.model.scope import Redirects
from crawlstream.model.url import host_of
from crawlstream.model.web.address import without_fragment
from crawlstream.model.web.priorities import PriorityRule
from crawlstream_frontier.link_rules.link_filters import Extensions, HostSet
from crawlstream_frontier.link_rules.link_priorities import priorities_by

_RULES_KEPT = 128
"""Crawls whose rules are kept; with expressions they may take 0.5 MB each."""

log = structlog.get_logger()


class LinkRules:
    """Filters of the links of a crawl, in Scrapy's order."""

    def __init__(
        self,
        domains: Sequence[str] | None,
        allow: Sequence[str] | None,
        deny: Sequence[str] | None,
        extensions: Sequence[str] | None,
        *,
        priorities: tuple[PriorityRule, ...] | None = None,
    ) -> None:
        self._allow = Patterns(allow or ())
        self._deny = Patterns(deny or ())
        self.has_expressions = bool(self._allow or self._deny)
        """True if :meth:`refusals` can refuse a link."""
        self._patience = PatternBudget()
        self._domains = HostSet(domains or ())
        self.further = HostSet(())
        """A host that the crawl may visit in addition to its domains."""
        self._extensions = Extensions(IGNORED_EXTENSIONS if extensions is None else extensions)
        self.priorities = priorities_by(priorities) if priorities else None
        """Rules that rank links or leave them out; None: the crawl has none."""

    def refusals(self, urls: Sequence[str]) -> Sequence[str | None]:
        """Return for each URL of a page why the expressions leave it out; None if they do not."""
        verdicts: list[str | None] = []
        clock: AbstractContextManager[None] = nullcontext()
        if self._allow.backtrack_on(urls) or self._deny.backtrack_on(urls):
            clock = self._patience.limited()
        try:
            with clock:
                for url in urls:
                    verdicts.append(None if self._is_wanted(url) else "regex")  # noqa: PERF401  what is judged in time is kept
        except OutOfTime:
            log.warning("parse", outcome="regex_timeout", links=len(urls) - len(verdicts))
        return verdicts + ["regex_timeout"] * (len(urls) - len(verdicts))

    def _is_wanted(self, url: str) -> bool:
        if self._allow and not self._allow.found_in(url):
            return False
        return not (self._deny and self._deny.found_in(url))

    def refuses(self, url: str) -> str | None:
        """Return why other filters leave out an address without fragment; None if they do not."""
        if not self.covers(url):
            return "domain"
        return "extension" if self._extensions.are_of(url) else None

    def covers(self, url: str) -> bool:
        """Return whether an address is on a host that the crawl may visit."""
        if not self._domains or self._domains.covers(url):
            return True
        return bool(self.further) and self.further.covers(url)

    def leaves(self, url: str, target: str, *, depth: int = 0, of_pages: bool = True) -> str | None:
        """Return the first filter that admits a page and refuses the target of its redirect.

        A filter that refuses the page itself is skipped: the page was requested regardless.
        Without ``of_pages`` only hosts are judged.
        """
        page, found = without_fragment(url), without_fragment(target)
        if of_pages and self.has_expressions:
            refusal, own_refusal = self.refusals((target, url))
            if refusal and own_refusal != "regex":
                return refusal
        if self.covers(page) and not self.covers(found):
            return "domain"
        if of_pages and self._extensions.are_of(found) and not self._extensions.are_of(page):
            return "extension"
        if of_pages and self.drops(found, depth) and not self.drops(page, depth):
            return "rule"
        return None

    def drops(self, url: str, depth: int, text: str = "") -> bool:
        """Return whether a priority rule leaves out a link, without fragment, to a page."""
        rule = self.priorities.find(url, depth, text) if self.priorities else None
        return rule is not None and rule.drop

    def verdicts(self, links: Sequence[tuple[str, str]], depth: int) -> Iterator[str | None]:
        """Return for each address, with its text, why a filter leaves it out; None if none does.

        ``depth`` is that of the pages that they lead to.
        """
        refusals: Iterable[str | None] = repeat(None)
        if self.has_expressions:
            refusals = self.refusals([url for url, _text in links])
        for (address, text), refusal in zip(links, refusals, strict=False):
            url = without_fragment(address)
            verdict = refusal or self.refuses(url)
            if verdict is None and self.priorities and self.drops(url, depth, text):
                verdict = "rule"
            yield verdict


def rules_for(lease: Lease) -> LinkRules:
    """The rules of a page, by which its links and its redirect are judged."""
    rules = rules_of(lease.profile)
    moved_to = lease.entry.moved_to
    return _with_host(rules, moved_to) if moved_to else rules


def rules_of(profile: Profile) -> LinkRules:
    """The rules of a profile; compiled once for many pages."""
    return _rules(
        profile.allowed_domains,
        profile.allow_regex,
        profile.deny_regex,
        profile.deny_extensions,
        priorities=profile.priorities,
    )


@lru_cache(_RULES_KEPT)
def _rules(
    *filters: tuple[str, ...] | None, priorities: tuple[PriorityRule, ...] | None
) -> LinkRules:
    return LinkRules(*filters, priorities=priorities)


@lru_cache(_RULES_KEPT)
def _with_host(rules: LinkRules, host: str) -> LinkRules:
    found = copy(rules)
    found.further = HostSet((host,))
    return found


def moved_to(lease: Lease, target: str) -> str | None:
    """Return the host that takes the seed's place if a page redirects to a target.

    None if the target is in the scope, if the seed was outside of it, or must not leave it.
    """
    entry, profile = lease.entry, lease.profile
    if entry.origin is None:
        return entry.moved_to
    rules, seed = rules_of(profile), (*entry.redirect_urls, entry.url)[0]
    if profile.redirects == Redirects.SCOPE or rules.covers(target) or not rules.covers(seed):
        return None
    return host_of(target)


class RedirectRules:
    """Judges redirects by what a crawl asks for, and by what the operator blocks."""

    def __init__(self, blacklist: Blacklist | None = None, *, of_pages: bool = True) -> None:
        """Without ``of_pages`` a spider fetches no pages: only hosts are looked at."""
        self._blacklist = blacklist
        self._of_pages = of_pages

    def refuse(self, page: Page, target: str) -> bool:
        """Return whether a page must not lead to a target, and count that as a filtered link."""
        reason = self._refusal(page.lease, target)
        if reason and page.turned_back != target:
            page.turned_back = target
            page.filtered[reason] += 1
        return reason is not None

    def _refusal(self, lease: Lease, target: str) -> str | None:
        if self._blacklist and self._blacklist.refuses(target):
            return "blacklist"
        follows = lease.profile.redirects
        is_seeds = lease.entry.origin is not None
        if follows == Redirects.ANY or (is_seeds and follows == Redirects.SEEDS):
            return None
        of_pages = self._of_pages and not lease.entry.is_sitemap
        return rules_for(lease).leaves(
            lease.entry.url, target, depth=lease.entry.depth, of_pages=of_pages
        )


OF_THE_CRAWL = RedirectRules()
"""The rules of the crawl itself, without the operator's."""
