"""Sitemaps of a crawl with ``sitemaps``: which files it reads, and which pages of them it fetches.

A page to which a seed leads has the sitemaps of its origin as children, its feeds and the llms.txt
of its origin, and each sitemap those that it lists. So they are pages of the crawl like all others,
and are read once a run. Each file knows how many may be read because of it, and shares that among
the files that it lists: so the bound holds without a counter, however often a page is repeated, and
in whichever worker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import structlog
from scrapy.http import Response

from crawling.links.children import referrers_of
from crawling.links.scope import LinkRules, rules_for
from crawling.page.head import head_of
from crawling.page.page import Page
from crawling.page.scrapy_request import page_of
from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import READS_SITEMAP, Entry
from crawlstream.model.scope import SitemapUse
from crawlstream.model.url import domain_key, host_of, link_url, origin_of
from crawlstream.model.web.address import resolved
from crawlstream_extract.sitemaps import LLMS_TXT, SitemapEntry, SitemapListing, listing_of

MOST_NAMED = 100
"""Maximum number of sitemaps of one robots.txt."""
_MOST_LEVELS = 3
"""Maximum number of levels of sitemaps that list sitemaps."""
_MOST_FEEDS = 5
"""Maximum number of feeds of one page."""
_SHARES = 20
"""All sitemaps of one robots.txt may lead to this many times as many files as one of them."""
_USUAL = "/sitemap.xml"
_PLACE = READS_SITEMAP
"""Key in the meta of an entry: its level, and the number of files that it may lead to."""

log = structlog.get_logger()


class SitemapPlace(NamedTuple):
    """Place of a file in the tree of sitemaps of an origin."""

    level: int
    """0: robots.txt; 1: a sitemap that it names."""
    files: int
    """Files that it may lead to, itself included unless it is robots.txt."""


@dataclass(frozen=True, slots=True)
class SitemapFiles:
    """Sitemaps that a page leads to, and the number of those that were left out, by reason."""

    entries: Sequence[Entry] = ()
    refused: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class ListedPages:
    """Content of a sitemap as far as its crawl follows it."""

    files: SitemapFiles
    pages: Sequence[SitemapEntry] = ()
    sitemaps: Sequence[SitemapEntry] = ()
    """Entries of ``files``."""

    @property
    def all(self) -> Sequence[SitemapEntry]:
        """Return sitemaps and pages."""
        return [*self.sitemaps, *self.pages]


def follows_links(page: Page) -> bool:
    """Return whether a crawl follows the links of a page; it always follows those of sitemaps."""
    lease = page.lease
    return lease.profile.sitemaps != SitemapUse.ONLY or lease.entry.is_sitemap


def sitemaps_at(
    page: Page, response: Response, named: Sequence[str] | None, most_files: int
) -> SitemapFiles:
    """Return sitemaps and llms.txt of the origin of a page and its feeds, if a seed has led there.

    ``named``: those that its robots.txt names; None: that is not known, so robots.txt is read like
    a sitemap. ``most_files``: files that one of them may lead to; others lead to none.
    """
    lease = page.lease
    is_seeds = lease.entry.origin is not None and not lease.entry.is_sitemap
    if not is_seeds or lease.entry.depth >= lease.profile.maxdepth:
        return SitemapFiles()
    robots, refused = f"{origin_of(lease.entry.url)}/robots.txt", Counter[str]()
    maker = _Maker(page, response, refused)
    if named is None:
        entries: Sequence[Entry] = maker.entries([SitemapEntry(robots)], 0, _SHARES * most_files)
    else:
        urls = filter(None, (resolved(robots, each) for each in named))
        entries = maker.named([SitemapEntry(each) for each in urls], _SHARES * most_files)
    return SitemapFiles([*entries, *maker.leaves(_feeds_of(page, response, refused))], refused)


def _feeds_of(page: Page, response: Response, refused: Counter[str]) -> list[str]:
    """Return the feeds that the head of a page names; count those that are left out."""
    feeds: list[str] = []
    try:
        head = head_of(response)
        feeds = list(dict.fromkeys(head.feeds())) if head else []
    except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
        log.warning("parse", outcome="feeds_unread", url=response.url, error=str(error)[:200])
    kept = [] if page.keeps_links else feeds[:_MOST_FEEDS]
    if left := len(feeds) - len(kept):
        refused["nofollow" if page.keeps_links else "sitemap_bound"] += left
    return kept


def listed_by(response: Response, *, is_whole: bool) -> ListedPages:
    """Return what a sitemap of a crawl with ``sitemaps`` leads to.

    ``is_whole``: whether its body did not break off on its way here.
    """
    page, refused = page_of(response), Counter[str]()
    place = _place_of(page.lease.entry)
    maker = _Maker(page, response, refused)
    is_there = response.status // 100 == 2
    if not is_there and place.level:
        if not _is_llms_txt(page.lease.entry):
            refused["no_sitemap"] += 1
        return ListedPages(SitemapFiles(refused=refused))
    url = page.lease.entry.url if place.level == 0 else response.url
    body = response.body if is_there else b""
    found = listing_of(url, body, is_whole=is_whole)
    log_problem(url, found)
    refused.update(found.refused)
    if place.level == 0:
        files = SitemapFiles(maker.named(found.sitemaps, place.files), refused)
        return ListedPages(files, sitemaps=maker.made)
    files = SitemapFiles(maker.below(found.sitemaps, place), refused)
    pages = followed(found.pages, rules_for(page.lease), page.lease.entry.depth + 1, refused)
    return ListedPages(files, pages, maker.made)


def log_problem(url: str, found: SitemapListing) -> None:
    """Log why a file was not read, or not to its end."""
    if found.why:
        log.warning("parse", outcome="sitemap_cut", url=url, why=found.why)
    if found.refused["sitemap_unread"]:
        log.warning("parse", outcome="sitemap_unread", url=url)


def followed(
    pages: Sequence[SitemapEntry], rules: LinkRules, depth: int, refused: Counter[str]
) -> list[SitemapEntry]:
    """Return the pages that a crawl follows; count the others by reason."""
    kept = []
    verdicts = rules.verdicts([(one.url, one.title) for one in pages], depth)
    for one, verdict in zip(pages, verdicts, strict=True):
        if verdict is None:
            kept.append(one)
        else:
            refused[verdict] += 1
    return kept


def allowed(
    sitemaps: Iterable[SitemapEntry], rules: LinkRules, refused: Counter[str]
) -> list[SitemapEntry]:
    """Return those on hosts that the crawl may visit; its other filters are about pages."""
    kept = []
    for one in sitemaps:
        if rules.covers(one.url):
            kept.append(one)
        else:
            refused["domain"] += 1
    return kept


def _is_llms_txt(entry: Entry) -> bool:
    """Return whether a file is an llms.txt, which most sites lack, or the target of one."""
    return (*entry.redirect_urls, entry.url)[0].endswith(LLMS_TXT)


def _place_of(entry: Entry) -> SitemapPlace:
    """Return the place of a file; a file without one leads to no other."""
    found = entry.meta.get(_PLACE)
    if isinstance(found, list) and len(found) == 2 and all(type(each) is int for each in found):
        return SitemapPlace(*found)
    return SitemapPlace(_MOST_LEVELS, 1)


class _Maker:
    """Makes the entries of sitemaps that one page leads to."""

    def __init__(self, page: Page, response: Response, refused: Counter[str]) -> None:
        self._lease = page.lease
        self._response = response
        self._refused = refused
        self.made: list[SitemapEntry] = []
        """Sitemaps that have an entry."""

    def named(self, sitemaps: Sequence[SitemapEntry], files: int) -> Sequence[Entry]:
        """Return those that a robots.txt names, or else the usual one; ``files``: of all."""
        origin = origin_of(self._lease.entry.url)
        kept = self._allowed(sitemaps or [SitemapEntry(f"{origin}{_USUAL}")])
        most, each = min(files, MOST_NAMED), files // _SHARES
        return self._shared(kept, 1, most=most, files=files, each=each)

    def leaves(self, feeds: Iterable[str]) -> Sequence[Entry]:
        """Return feeds and the llms.txt of the origin, which lead to no other files."""
        llms_txt = f"{origin_of(self._lease.entry.url)}{LLMS_TXT}"
        kept = self._allowed(map(SitemapEntry, (*feeds, llms_txt)))
        return self.entries(kept, _MOST_LEVELS, 1)

    def below(self, sitemaps: Sequence[SitemapEntry], place: SitemapPlace) -> Sequence[Entry]:
        """Return those that an index lists: of its own site only."""
        if not sitemaps:
            return ()
        site = domain_key(host_of(self._response.url))
        own = [one for one in sitemaps if domain_key(host_of(one.url)) == site]
        self._refuse("domain", len(sitemaps) - len(own))
        room = place.files - 1 if place.level < _MOST_LEVELS else 0
        level, kept = place.level + 1, self._allowed(own)
        return self._shared(kept, level, most=room, files=room, each=room)

    def _allowed(self, sitemaps: Iterable[SitemapEntry]) -> list[SitemapEntry]:
        return allowed(sitemaps, rules_for(self._lease), self._refused)

    def _shared(
        self, sitemaps: Sequence[SitemapEntry], level: int, *, most: int, files: int, each: int
    ) -> Sequence[Entry]:
        """Return at most ``most``, which share files among them; none has more than ``each``."""
        kept = sitemaps[:most]
        self._refuse("sitemap_bound", len(sitemaps) - len(kept))
        return self.entries(kept, level, max(min(each, files // len(kept)), 1)) if kept else ()

    def _refuse(self, reason: str, number: int) -> None:
        if number:
            self._refused[reason] += number

    def entries(self, sitemaps: Iterable[SitemapEntry], level: int, files: int) -> list[Entry]:
        """Return the entries of files with a place: at the depth of their page, once a version."""
        return list(self._made(sitemaps, level, files))

    def _made(self, sitemaps: Iterable[SitemapEntry], level: int, files: int) -> Iterator[Entry]:
        lease, parent = self._lease, self._response.url
        referrer_of = referrers_of(self._response)
        for one in sitemaps:
            try:
                url = link_url(one.url)
            except InvalidUrl:
                self._refuse("url", 1)
                continue
            self.made.append(one)
            yield Entry(
                url=url,
                depth=lease.entry.depth,
                parent_url=parent,
                callback=READS_SITEMAP,
                headers=referrer_of(url),
                meta={_PLACE: [level, files]},
                salt=f"v {one.lastmod or f'run {lease.run}'}",
                moved_to=lease.entry.moved_to,
            )
