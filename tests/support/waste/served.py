"""Generated sites, served on addresses of their own."""

from __future__ import annotations

from collections import Counter
from typing import ClassVar
from zlib import crc32

from crawlstream_chaos.scripted_site import Answer, CrawlerSite
from support.waste.site import Site, SitePage, Url


class ManySites(CrawlerSite):
    """Generated sites, each on an address of its own."""

    sites: ClassVar[dict[str, Site]] = {}
    truths: ClassVar[dict[str, set[str]]] = {}
    """Contents worth having that were fetched, by address."""
    fetches: ClassVar[Counter[str]] = Counter()

    @classmethod
    def host(cls, sites: dict[str, Site]) -> None:
        """Serve these sites, by address, of which nothing has been fetched."""
        cls.sites, cls.truths, cls.fetches = sites, {host: set() for host in sites}, Counter()

    def page_at(self, host: str, path: str) -> Answer:
        """Return a page of the site at this address."""
        page = self.sites[host].fetch(Url.of(path))
        if path != "/robots.txt":
            self.fetches[host] += 1
        if page.truth is not None and page.status == 200:
            self.truths[host].add(page.truth)
        return Answer(_markup(page).encode(), status=page.status)


def _words(text: str) -> str:
    """Return text without numbers: those of its own address do not count."""
    return " ".join(chr(97 + int(digit, 16)) for digit in f"{crc32(text.encode()):x}")


def _markup(page: SitePage) -> str:
    names = "".join(f"<li>{_words(name)}</li>" for name in page.names)
    links = "".join(f'<a href="{link.target}">more</a>' for link in page.links)
    return f"<html><body><p>{_words(page.text)}</p>{names}{links}</body></html>"
