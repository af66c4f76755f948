"""The web of a story, and what a crawl of it must bring: a plain model of the documented rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

Format = Literal["html", "sitemap"]


@dataclass(slots=True)
class Leaf:
    """A document: its links, and how the site serves it."""

    links: Callable[[int], Sequence[str]] = lambda _round: ()
    """URLs that it lists in the feeding of this number."""
    moved_to: str = ""
    """Where it redirects to; empty: it is a page."""
    format: Format = "html"
    refusals: int = 0
    """Number of 503 before the page."""
    fails: str = ""
    """The reason for which it fails wherever it is found; empty: it comes."""
    dropped: bool = False
    """True if the crawl does not follow links to it."""


@dataclass(slots=True)
class Expected:
    """Results that one feeding must bring."""

    pages: Counter[str] = field(default_factory=Counter)
    """URL of each page -> how often it is delivered."""
    failed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """URL and reason of each failure -> how often it is reported."""
    redirected: int = 0

    @property
    def admitted(self) -> int:
        """Pages and failures; hops of redirects do not count for the limits of a crawl."""
        return self.pages.total() + self.failed.total()


@dataclass(slots=True)
class Walk:
    """Follows links as a crawl does, over all of its feedings."""

    web: dict[str, Leaf]
    maxdepth: int
    seen: set[str] = field(default_factory=set)

    def feeding(self, number: int, seed: str, times: int) -> Expected:
        """Return the results of feeding a seed several times at once."""
        expected = Expected()
        level = [url for _ in range(times) for url in self._page_of(seed, expected, is_seed=True)]
        for _ in range(self.maxdepth):
            found = [link for url in level for link in self.web[url].links(number)]
            level = [page for link in found for page in self._page_of(link, expected)]
        return expected

    def _page_of(self, url: str, expected: Expected, *, is_seed: bool = False) -> Iterator[str]:
        """Yield the page at the end of a chain of redirects, unless the crawl has seen it."""
        while is_seed or url not in self.seen:
            leaf = self.web[url]
            if leaf.dropped:
                return
            self.seen.add(url)
            if leaf.fails:
                expected.failed[url, leaf.fails] += 1
                return
            if not leaf.moved_to:
                expected.pages[url] += 1
                yield url
                return
            expected.redirected += 1
            url = leaf.moved_to
