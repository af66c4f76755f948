"""Generated sites, served on addresses of their own."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import ClassVar
from zlib import crc32

from crawlstream_chaos.scripted_site import Answer, CrawlerSite
from crawlstream_chaos.waste_sites.site import GeneratedPage, GeneratedSite, Url


@dataclass(slots=True)
class SiteLog:
    """Fetches of one site."""

    site: GeneratedSite
    fetches: int = 0
    found: dict[str, int] = field(default_factory=dict)
    """Number of fetches until each content that is worth having was fetched."""
    is_over: bool = False
    """True once its crawl has ended, or has had its budget."""

    def note(self, page: GeneratedPage) -> None:
        """Note a fetch."""
        self.fetches += 1
        if page.truth is not None and page.status == 200:
            self.found.setdefault(page.truth, self.fetches)

    @property
    def lost(self) -> int:
        """Return the number of contents worth having that were never fetched."""
        return self.site.size - len(self.found)

    def share(self, budget: int) -> float:
        """Return the share of the first ``budget`` fetches that brought something worth having."""
        useful = sum(at <= budget for at in self.found.values())
        return useful / max(min(self.fetches, budget), 1)

    def until(self, part: float, budget: int) -> int:
        """Return the number of fetches until a part of the contents was there; at most budget."""
        places, number = sorted(self.found.values()), int(part * self.site.size)
        return min(places[number - 1], budget) if number <= len(places) else budget


class ManySites(CrawlerSite):
    """Generated sites, each on an address of its own."""

    logs: ClassVar[dict[str, SiteLog]] = {}
    _lock = threading.Lock()

    @classmethod
    def host(cls, sites: dict[str, GeneratedSite]) -> None:
        """Serve these sites, by address, of which nothing has been fetched."""
        cls.logs = {host: SiteLog(site) for host, site in sites.items()}

    def page_at(self, host: str, path: str) -> Answer:
        """Return a page of the site at this address."""
        log = self.logs[host]
        if path == "/robots.txt":
            return Answer(status=404)
        with self._lock:
            page = log.site.fetch(Url.of(path))
            log.note(page)
        return Answer(_markup(page).encode(), status=page.status)


def _words(text: str) -> str:
    """Return text without numbers: those of its own address do not count."""
    return " ".join(chr(97 + int(digit, 16)) for digit in f"{crc32(text.encode()):x}")


def _markup(page: GeneratedPage) -> str:
    names = "".join(f"<li>{_words(name)}</li>" for name in page.names)
    links = "".join(f'<a href="{link.target}">more</a>' for link in page.links)
    return f"<html><body><p>{_words(page.text)}</p>{names}{links}</body></html>"
