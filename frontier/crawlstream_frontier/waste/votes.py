"""Votes of pages: what the sketch of a site learns from one page."""

from __future__ import annotations

from typing import NamedTuple
from zlib import crc32

from crawlstream.model.crawl import CrawlKey

HOST = "host"
"""Family of the URLs at another host label than the site's main one."""


def run_hash(crawl: CrawlKey, run: int) -> int:
    """Return the 32 bits by which a sketch knows a run."""
    name = f"{crawl.appid}\0{crawl.crawlid}\0{crawl.spiderid}\0{run}"
    return crc32(name.encode(errors="surrogatepass"))


class PagePair(NamedTuple):
    """Name of a page without one of its parameters, or without its host."""

    family: str
    """``?NAME``, or ``host``."""
    key: int
    """Hash of the family and the rest of the URL, 24 bits."""
    value: int
    """Hash of the parameter's value, or of the host, 8 bits."""


class SitePlace(NamedTuple):
    """Address of a page as the sketch sees it."""

    host: int
    """Hash of the host without ``www.``, 16 bits."""
    families: tuple[str, ...]
    """Families of the URL if its host is the main one of its site: parameters, or its path."""

    def families_at(self, main: int) -> tuple[str, ...]:
        """Return the families of the URL if the site's main host has the hash ``main``."""
        if self.host == main:
            return self.families
        return (*(name for name in self.families if name.startswith("?")), HOST)


class PageVote(NamedTuple):
    """Vote of a page that ended with a body."""

    place: SitePlace
    parent: SitePlace | None = None
    """SitePlace of the page that linked to it; None for a seed, and for a page of another site."""
    is_there: bool = True
    """True for a status of 2xx."""
    text: int | None = None
    """Hash of its visible text, 32 bits; None: it has none, or needs a browser to show it."""
    address: int | None = None
    """Hash of its URL, 8 bits; None: not known."""
    pairs: tuple[PagePair, ...] = ()
    from_last: bool = False
    """True if it was leased from the last band of its domain."""


class NeighbourAnswer(NamedTuple):
    """Answer of a site to a request for a made-up neighbour: a URL that nothing links to."""

    family: str
    is_there: bool
    """True if it shows a text that pages of the family have."""


class TextAnswer(NamedTuple):
    """Answer of a site to a request for a made-up neighbour of a page with a frequent text."""

    text: int
    is_there: bool
    """True if it shows that text: the site shows it for pages that do not exist."""


class CrawlBegan(NamedTuple):
    """Word that a run acts on the verdicts; for a new one, what others refused goes last again."""

    run: int
    """Hash of its crawl and number, 32 bits."""


Vote = PageVote | NeighbourAnswer | TextAnswer | CrawlBegan
