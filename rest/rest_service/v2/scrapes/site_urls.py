"""URLs of a site, from several sources, each once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream.model.url import domain_key, host_of
from crawlstream.model.web.linear import linear_set

SOURCES = ("sitemap", "links", "frontier")
MOST_URLS = 200_000
"""URLs that are kept while files are read: 40 MB."""


@dataclass(slots=True)
class _Found:
    lastmod: str
    title: str
    sources: tuple[str, ...]


class SiteUrls:
    """Collects the URLs of one registrable domain that fit an expression."""

    def __init__(self, url: str, match: str = "") -> None:
        self._domain = domain_key(host_of(url))
        self._match = linear_set([match]) if match else None
        self._found: dict[str, _Found] = {}
        self._hosts: dict[str, bool] = {}
        self.too_many = 0
        """URLs beyond MOST_URLS."""

    def __len__(self) -> int:
        return len(self._found)

    def is_ours(self, url: str) -> bool:
        """Return whether a URL is of the site."""
        end = url.find("/", 8)
        place = url[:end] if end > 0 else url
        if (known := self._hosts.get(place)) is None:
            known = self._hosts[place] = domain_key(host_of(url)) == self._domain
        return known

    def add(self, source: str, entries: Iterable[tuple[str, str, str]]) -> None:
        """Add addresses, each with its last change and its title."""
        for url, lastmod, title in entries:
            known = self._found.get(url)
            if known is not None:
                known.lastmod, known.title = known.lastmod or lastmod, known.title or title
                if source not in known.sources:
                    known.sources += (source,)
            elif self.is_ours(url) and self._fits(url):
                if len(self._found) < MOST_URLS:
                    self._found[url] = _Found(lastmod, title, (source,))
                else:
                    self.too_many += 1

    def best(self, limit: int) -> Sequence[dict[str, Any]]:
        """Return the first URLs: those that have changed last, then the shortest."""
        urls = sorted(self._found, key=lambda url: (len(url), url))
        urls.sort(key=lambda url: self._found[url].lastmod, reverse=True)
        return [_told(url, self._found[url]) for url in urls[:limit]]

    def _fits(self, url: str) -> bool:
        return self._match is None or 1 in self._match.Match(url)


def _told(url: str, found: _Found) -> dict[str, Any]:
    optional = {"lastmod": found.lastmod, "title": found.title}
    return {
        "url": url,
        **{name: value for name, value in optional.items() if value},
        "from": [one for one in SOURCES if one in found.sources],
    }
