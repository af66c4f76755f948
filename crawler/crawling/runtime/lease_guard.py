"""Judges leased pages before their requests: many were found before their family had a verdict."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from crawling.page.page import Page
from crawling.quality.parameter_rules import ParameterRules, parameter_rules
from crawling.response.outcome import Outcomes
from crawling.response.redirects import moved_to_clean
from crawling.robots.screen import Screening
from crawling.waste.decisions import LinkDecision
from crawling.waste.evidence import is_plain
from crawlstream.model.effects import UNSENT
from crawlstream.model.web.guard_mode import GuardMode, guard_mode
from crawlstream_frontier.link_rules.promotion import unpromoted
from crawlstream_frontier.waste.families import label_of
from crawlstream_frontier.waste.last_band import is_last, last_of, lifted

_REMEMBERED = 20_000
_LISTS_PAGES = "sitemap"
"""Spider of crawls whose pages are named by their sites: none of them is refused."""


class _Verdicts(Protocol):
    def decision_on(self, page: Page, rules: ParameterRules | None) -> LinkDecision:
        """Return the decision on a page as on a link to it."""


class _Neighbours(Protocol):
    def admit(self, page: Page, let_through: Callable[[Page], None]) -> None:
        """Let a page through, or spend its grant on a made-up neighbour."""


class _Recent:
    """Ids of the pages that were put last most recently.

    A domain with as many bands as it may have takes them to the nearest one; from there they come
    again, and are fetched.
    """

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, page_id: str) -> bool:
        """Add an id; return False if it is known."""
        if page_id in self._ids:
            return False
        self._ids[page_id] = None
        if len(self._ids) > _REMEMBERED:
            del self._ids[next(iter(self._ids))]
        return True


class LeaseGuard:
    """Screens pages by the verdicts on their families, and the others as before."""

    def __init__(
        self,
        rest: Screening,
        verdicts: _Verdicts,
        outcomes: Outcomes,
        neighbours: _Neighbours | None = None,
    ) -> None:
        """``neighbours``: None if sites are not asked for any."""
        self._neighbours = neighbours
        self._rest = rest
        self._verdicts = verdicts
        self._outcomes = outcomes
        self._put_last = _Recent()
        self._mode, self._most = outcomes.settings.guard, outcomes.settings.guard_most
        self._parameters = outcomes.settings.keep_parameters, outcomes.settings.drop_parameters

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched now; end the others, or put them last."""
        kept: list[Page] = []
        refused = defaultdict[tuple[str, str], list[Page]](list)
        for page in pages:
            if not self._may_be_judged(page):
                kept.append(page)
                continue
            decision = _as_listed(page, self._verdicts.decision_on(page, self._rules_of(page)))
            if decision.refused:
                refused[decision.refused, label_of(decision.family)].append(page)
            elif not self._moves(page, decision):
                kept.append(page)
        for (reason, family), some in refused.items():
            self._outcomes.endings.skipping.skip_soon(some, reason=reason, family=family)
        self._rest.screen(kept, partial(self._admit, let_through))

    def _admit(self, let_through: Callable[[Page], None], page: Page) -> None:
        """Let a page through that may be fetched, unless its grant is needed otherwise."""
        if self._neighbours and self._may_be_judged(page):
            self._neighbours.admit(page, let_through)
        else:
            let_through(page)

    def _rules_of(self, page: Page) -> ParameterRules | None:
        return parameter_rules(page.lease.profile.parameters, *self._parameters)

    def _may_be_judged(self, page: Page) -> bool:
        """Return whether a page is one of a crawl in mode ``on``, found by a link, and new.

        The result of an entry that was retried or reaped may be published already.
        """
        lease = page.lease
        wish = lease.profile.guard
        if wish is None and self._mode is not GuardMode.ON:
            return False
        if guard_mode(wish, self._mode, self._most) is not GuardMode.ON:
            return False
        entry = lease.entry
        is_link = entry.origin is None and not entry.redirect_urls and entry.salt is None
        return is_link and not (lease.is_marked or entry.callback or entry.meta) and is_plain(page)

    def _moves(self, page: Page, decision: LinkDecision) -> bool:
        """End a page in favour of its clean form, or put it last; return False for neither."""
        lease, target = page.lease, None
        own = lifted(lease.priority)
        if lease.profile.score:
            own = unpromoted(own)
        if decision.url != lease.entry.url:
            target = moved_to_clean(page, decision.url, self._outcomes.redirects)
        if target is not None:
            priority = last_of(own) if decision.is_last else own
            self._outcomes.move(page, target, priority)
        elif decision.is_last and not is_last(lease.priority) and self._put_last.add(page.id):
            leases, last = self._outcomes.leases, last_of(own)
            leases.release(page, sent_ms=UNSENT, priority=last)
        else:
            return False
        return True


def _as_listed(page: Page, decision: LinkDecision) -> LinkDecision:
    """Return the decision on a page; one that its site itself may have named is last at most."""
    if page.lease.crawl.spiderid != _LISTS_PAGES and page.lease.profile.sitemaps is None:
        return decision
    is_last = decision.is_last or decision.refused is not None
    return LinkDecision(page.lease.entry.url, is_last=is_last)
