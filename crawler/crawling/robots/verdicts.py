"""Verdicts on pages by robots.txt: whether they are fetched, as what, at which time of day."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from crawling.page.page import Page
from crawling.page.rights import SiteSays
from crawling.page.scrapy_request import agent_of
from crawling.quality.parameter_rules import parameter_rules
from crawling.response.outcome import Outcomes
from crawling.response.redirects import moved_to_clean
from crawling.robots.robots_book import file_of
from crawling.robots.rules import RobotsRules
from crawling.robots.words import time_at
from crawlstream.model.crawl import Entry, Profile

_EARLIER_S = 1.0
"""Requests stop this long before the hours of a site end: the known date of Redis may be late by
the time that its last answer took."""


class Permission(Enum):
    """Permission of a page, as far as it is known."""

    ALLOWED = auto()
    FORBIDDEN = auto()
    UNKNOWN = auto()
    """The rules are not known, or judging takes too long."""


class Found(NamedTuple):
    """Statements of a file about a page."""

    is_allowed: bool
    clean: str
    """URL of the page without irrelevant parameters."""
    says: SiteSays | None
    """Statements about uses of it."""


@dataclass(frozen=True, slots=True)
class Rest:
    """The site may be visited at another time of day."""

    seconds: float


Verdict = Permission | Rest | Entry
"""An entry takes the place of the page."""


class Verdicts:
    """Judges pages by the rules and words of their sites."""

    def __init__(self, outcomes: Outcomes, agent: str) -> None:
        """``agent`` is the user agent of requests where a crawl names no other."""
        self._agent = agent
        self._leases = outcomes.leases
        self._settings = outcomes.settings
        self._redirects = outcomes.redirects

    def agent_of(self, page: Page) -> str:
        """Return the user agent of the requests of a page."""
        return agent_of(page.lease, self._agent)

    def must_obey(self, profile: Profile) -> bool:
        """Return whether a crawl goes by robots.txt."""
        if profile.obey_robots is None:
            return self._settings.robotstxt_obey
        return profile.obey_robots or not self._settings.allow_ignore_robots

    def look_up(self, page: Page, rules: RobotsRules) -> Found:
        """Return what a file says of a page.

        This takes long where the file is long.
        """
        url, agent = page.lease.entry.url, self.agent_of(page)
        clean = self._cleaned(page, rules) if self._settings.clean_param else url
        says = None if rules.words.is_empty else rules.says_of(url, agent)
        is_its_own = page.lease.entry.is_sitemap and file_of(url) != url
        is_allowed = is_its_own or rules.allow(url, agent)
        return Found(is_allowed, clean, says)

    def _cleaned(self, page: Page, rules: RobotsRules) -> str:
        """Return the URL of a page without the parameters that do not matter, unless kept."""
        url, names = page.lease.entry.url, page.lease.profile.parameters
        settings = self._settings
        own = parameter_rules(names, settings.keep_parameters, settings.drop_parameters)
        return rules.words.cleaned(url, own.keeps) if own else rules.words.cleaned(url)

    def judge(self, page: Page, rules: RobotsRules, found: Found) -> Verdict:
        """Return the verdict on a page after ``look_up``; one that is let through has a time."""
        is_allowed, clean, page.site_says = found
        if not is_allowed:
            return Permission.FORBIDDEN
        if clean != page.lease.entry.url:
            target = moved_to_clean(page, clean, self._redirects)
            if target is not None:
                return target
        if self._settings.visit_time and (hours := rules.words_for(self.agent_of(page)).hours):
            contact = self._leases.of(page.lease.partition).contact
            wait_s, stay_s = time_at(hours, contact.date_s)
            if wait_s or stay_s <= _EARLIER_S:
                return Rest(wait_s or stay_s)
            page.until = time.monotonic() + stay_s - _EARLIER_S
        return Permission.ALLOWED
