"""Expected fetches and results of a crawl with given rules, computed by walking the model."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from crawlstream_cli.demo.web import ContentKind, SitePage, Web

_REDIRECTS = {ContentKind.MOVED: 302, ContentKind.MOVED_BACK: 301}
_STATUS = {ContentKind.MISSING: 404, **_REDIRECTS}
"""Status of URLs other than pages.

A redirect is a result if the rules do not let a crawl follow it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRules:
    """The fields of a crawl request that decide which links and redirects are followed.

    ``deny_extensions`` None means the usual list of file extensions other than those of pages;
    every file of the bundled web is on it. Regexes are searched in the absolute URL.
    """

    maxdepth: int = 0
    allowed_domains: tuple[str, ...] | None = None
    allow_regex: tuple[str, ...] | None = None
    deny_regex: tuple[str, ...] | None = None
    deny_extensions: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Truth:
    """The one right outcome of a crawl, by URL."""

    delivered: Mapping[str, int] = field(default_factory=dict)
    """Each page that ends as a result -> its HTTP status."""
    depths: Mapping[str, int] = field(default_factory=dict)
    """Each page that ends as a result -> the depth it is found at."""
    redirected: frozenset[str] = frozenset()
    """Pages that only lead to others."""
    forbidden: frozenset[str] = frozenset()
    """Pages found, but left alone because robots.txt says so."""
    fetches: Mapping[str, int] = field(default_factory=dict)
    """Each URL -> how often the site sees it when nothing goes wrong."""


def expected_pages(web: Web, rules: FollowRules, *, seed_url: str | None = None) -> Truth:
    """The outcome of one crawl from ``seed_url`` (the front page by default).

    Only from the front page is the depth of a page independent of the order of fetching; from
    elsewhere the answer holds for a ``maxdepth`` that limits nothing, and rules that a redirect of
    the seed obeys.
    """
    return _Walk(web, rules).run(seed_url or web.seed_url)


class _Walk:
    """A breadth-first walk."""

    def __init__(self, web: Web, rules: FollowRules) -> None:
        self._web = web
        self._rules = rules
        self._pages = {web.url(page): page for page in web.pages}
        self._seen: set[int] = set()
        self._waiting: deque[tuple[SitePage, int]] = deque()
        self._delivered: dict[str, int] = {}
        self._depths: dict[str, int] = {}
        self._redirected: set[str] = set()
        self._forbidden: set[str] = set()
        self._fetches: dict[str, int] = {}

    def run(self, seed_url: str) -> Truth:
        self._admit(self._pages[seed_url], 0)
        while self._waiting:
            self._visit(*self._waiting.popleft())
        return Truth(
            delivered=self._delivered,
            depths=self._depths,
            redirected=frozenset(self._redirected),
            forbidden=frozenset(self._forbidden),
            fetches=self._fetches,
        )

    def _admit(self, page: SitePage, depth: int) -> None:
        if page.number not in self._seen:
            self._seen.add(page.number)
            self._waiting.append((page, depth))

    def _visit(self, page: SitePage, depth: int) -> None:
        url = self._web.url(page)
        if not self._web.may_fetch(page):
            self._forbidden.add(url)
            return
        self._fetches[url] = 2 if page.kind is ContentKind.FLAKY else 1
        if page.kind in _REDIRECTS and self._follows(self._web.target(page)):
            self._redirected.add(url)
            # A redirect does not count as a step of the crawl: its target has the same depth.
            self._admit(self._web.target(page), depth)
            return
        self._delivered[url] = _STATUS.get(page.kind, 200)
        self._depths[url] = depth
        if depth < self._rules.maxdepth:
            for number in (*page.children, *page.asides):
                if self._follows(self._web.pages[number]):
                    self._admit(self._web.pages[number], depth + 1)

    def _follows(self, page: SitePage) -> bool:
        """Return whether the rules let a crawl follow a link or redirect to this page."""
        rules, url = self._rules, self._web.url(page)
        if rules.allowed_domains is not None and page.host not in rules.allowed_domains:
            return False
        if rules.allow_regex and not _matches(rules.allow_regex, url):
            return False
        if rules.deny_regex and _matches(rules.deny_regex, url):
            return False
        if page.kind is not ContentKind.FILE:
            return True
        extension = page.path.rpartition(".")[2]
        return rules.deny_extensions is not None and extension not in rules.deny_extensions


def _matches(patterns: tuple[str, ...], url: str) -> bool:
    return any(re.search(pattern, url) for pattern in patterns)
