"""Collect a spider's output of one page piece by piece: links stay here, items are passed on."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from crawling.links.by_priority import by_priority, change_of
from crawling.links.by_verdict import by_verdict
from crawling.links.children import Children, Outlinks
from crawling.links.sitemap_files import SitemapFiles, follows_links, sitemaps_at
from crawling.page.page import Page
from crawling.page.page_traits import traits_of
from crawling.parts import Parts
from crawling.quality.parameter_rules import parameter_rules
from crawling.waste.decisions import LinkJudge
from crawlstream.boot.failpoints import failpoint
from crawlstream.model.result import CrawlResult

_LINK = 200
"""Bytes that a link of a result takes, about."""


class Gathering:
    """The children of one page until it has been parsed."""

    def __init__(self, page: Page, response: Response, parts: Parts, spider: Spider | None) -> None:
        self._page = page
        self._response = response
        self._parts = parts
        self._obeys_maxdepth = getattr(spider, "obeys_maxdepth", True)
        self._fetches_pages = getattr(spider, "fetches_pages", True)
        self._children = Children(page, parts.traps, spider=spider)
        settings = parts.outcomes.settings
        self._parameters = parameter_rules(
            page.lease.profile.parameters, settings.keep_parameters, settings.drop_parameters
        )
        self._follows = True
        if page.lease.profile.sitemaps:
            self._follows = not self._fetches_pages or follows_links(page)
            named, most = parts.sitemaps_of(page.lease.entry.url), settings.sitemap_files
            with parts.recorder.noting(page):
                self._read_on(sitemaps_at(page, response, named, most))

    def take(self, each: Any) -> Any:
        """Keep links and requests; anything else comes back, an item for the pipelines."""
        page = self._page
        if isinstance(each, Outlinks):
            page.filtered.update(each.refused)
            if page.keeps_links:
                page.filtered.update("nofollow" for _ in each.urls)
            elif not self._follows:
                page.filtered.update("sitemaps_only" for _ in each.urls)
            else:
                self._follow(each)
        elif isinstance(each, SitemapFiles):
            self._read_on(each)
        elif isinstance(each, Request):
            self._request(each)
        elif each is not None:
            page.items += 1
            self._weigh(each)
            return each
        return None

    def _read_on(self, files: SitemapFiles) -> None:
        """Add sitemaps, which come before the pages that they list."""
        page = self._page
        page.filtered.update(files.refused)
        if page.keeps_links and page.lease.entry.is_sitemap:
            page.filtered.update("nofollow" for _ in files.entries)
            return
        for entry in files.entries:
            self._children.add(entry, page.lease.priority)

    def _follow(self, links: Outlinks) -> None:
        """Add links; those that a spider without pages keeps for itself are not judged."""
        if self._fetches_pages or links.spiderid is not None:
            for change, some in by_priority(links, self._page):
                self._follow_pages(some, change)
        else:
            self._add(links, 0)

    @cached_property
    def _judge(self) -> LinkJudge | None:
        """Decisions about links, by the page that has them; None: the guard decides nothing."""
        waste = self._parts.endings.waste
        if waste is None or self._page.guard is None:
            return None
        traits_of(self._page, self._response)  # Its text may be that of pages that do not exist.
        return waste.judge_of(self._page, self._parameters)

    def _follow_pages(self, links: Outlinks, change: int) -> None:
        """Add links to pages, as their parameters and the waste guard have it."""
        rules, judge = self._parameters, self._judge
        clean = replace(links, urls=[rules.clean(url) for url in links.urls]) if rules else links
        if judge is None or judge.follows_all(clean.urls):
            self._add(clean, change)
            return
        is_listed = not self._fetches_pages or self._page.lease.entry.is_sitemap
        for is_last, part in by_verdict(clean, self._page, judge, is_listed=is_listed):
            self._add(part, change, is_last=is_last)
        if rules and self._page.guard and (left_out := self._page.guard.left_out):
            pairs = zip(links.urls, clean.urls, strict=True)
            left_out.update(url for url, cleaned in pairs if cleaned in left_out)

    def _add(self, links: Outlinks, change: int, *, is_last: bool = False) -> None:
        add, response = self._children, self._response
        if links.versions:
            add.follow_versions(links, response, change=change, is_last=is_last)
        else:
            how: Any = {"spiderid": links.spiderid, "change": change, "is_last": is_last}
            add.follow(links.urls, response, **how)

    def _request(self, request: Request) -> None:
        page, profile = self._page, self._page.lease.profile
        if self._obeys_maxdepth and page.lease.entry.depth >= profile.maxdepth:
            page.filtered["depth"] += 1
            return
        if not self._follows:
            page.filtered["sitemaps_only"] += 1
            return
        change = change_of(page, request.url) if profile.priorities else 0
        if change is not None:
            self._children.request(request, self._response, change)

    def _weigh(self, item: Any) -> None:
        """Add the size of a result that waits for Kafka: its body, its picture and its links."""
        if isinstance(item, CrawlResult) and self._page.is_open:
            size = len(item.body) + len(item.links) * _LINK + len(item.screenshot_body or b"")
            self._parts.body_budget.weigh(self._page, size)

    def stop(self) -> None:
        """The spider yields no more, whether it has come to its end or raised."""
        self._page.links = self._parts.blacklist.screen(self._page, self._children.groups)

    def complete(self) -> None:
        """The spider has yielded everything; the page ends when its items have left."""
        failpoint("after_parse")
        self._parts.endings.parsed(self._page)
