"""The sitemap spider: pages that sitemaps and feeds list, each once for each of its versions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from scrapy.http import Response

from crawling import ClusterSpider, Outlinks
from crawling.links.scope import rules_for
from crawling.links.sitemap_files import allowed, followed, log_problem
from crawling.page.scrapy_request import page_of
from crawling.response.codings import INCOMPLETE
from crawlstream_extract.sitemaps import SitemapEntry, listing_of

PAGES_SPIDER = "pages_spider"
"""Key in the crawl's ``attrs``: the spider that fetches the pages."""
_PAGES_SPIDER = "link"


class SitemapSpider(ClusterSpider):
    """Reads robots.txt, sitemaps and their indexes, RSS and Atom; sitemaps are its own links.

    What they call a page is for another spider, if the crawl's filters let it through. A sitemap
    that its index says nothing of is read once a run, all else once for each time at which it was
    changed.
    """

    name = "sitemap"
    fetches_pages = False

    def parse(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        """The file's record with what it lists, and that, unless it is at the last level."""
        listed: list[SitemapEntry] = []
        if response.meta["curdepth"] < response.meta["maxdepth"] and response.status // 100 == 2:
            lease = page_of(response).lease
            is_whole = INCOMPLETE not in response.flags
            found = listing_of(response.url, response.body, is_whole=is_whole)
            log_problem(response.url, found)
            rules = rules_for(lease)
            sitemaps = allowed(found.sitemaps, rules, found.refused)
            pages = followed(found.pages, rules, lease.entry.depth + 1, found.refused)
            versions = [one.lastmod or f"run {lease.run}" for one in sitemaps]
            yield Outlinks([one.url for one in sitemaps], found.refused, versions=versions)
            yield Outlinks(
                [one.url for one in pages],
                spiderid=_pages_spider(response.meta["attrs"]),
                versions=[one.lastmod for one in pages],
                texts=[one.title for one in pages],
            )
            listed = [*sitemaps, *pages]
        links = [(one.url, one.title) for one in listed]
        yield self.result(response, links, lastmods=[one.lastmod for one in listed])


def _pages_spider(attrs: Any) -> str:
    name = attrs.get(PAGES_SPIDER) if isinstance(attrs, dict) else None
    return name if isinstance(name, str) and name else _PAGES_SPIDER
