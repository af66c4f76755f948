"""A site made of functions: a page is made when it is fetched, so a trap has no end.

The base class has an honest core: 1 000 articles behind 50 lists. ``truth`` names the content of
a page that is worth having; only the referee knows it.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit  # noqa: TID251  of its own addresses
from zlib import crc32

MAIN_HOST = "site.example.com"


class Url(NamedTuple):
    """Address in a site."""

    path: str
    query: tuple[tuple[str, str], ...] = ()
    label: str = ""
    """Label of its host; empty: the main one."""

    @property
    def params(self) -> dict[str, str]:
        """Return the query's parameters."""
        return dict(self.query)

    def without(self, *names: str) -> Url:
        """Return the URL without some parameters."""
        return self._replace(query=tuple(pair for pair in self.query if pair[0] not in names))

    def with_(self, **params: object) -> Url:
        """Return the URL with some parameters set."""
        return url(self.path, self.label, **{**self.params, **params})

    @property
    def text(self) -> str:
        """Return it as it is sent."""
        host = f"{self.label}.{MAIN_HOST}" if self.label else MAIN_HOST
        return f"http://{host}{self.target}"

    @property
    def target(self) -> str:
        """Return its path and query."""
        return self.path + (f"?{urlencode(self.query)}" if self.query else "")

    @classmethod
    def of(cls, text: str) -> Url:
        """Return the URL of an address, or of a request's target."""
        parts = urlsplit(text)
        label = (parts.hostname or MAIN_HOST).removesuffix(MAIN_HOST).rstrip(".")
        return cls(parts.path, tuple(sorted(parse_qsl(parts.query))), label)


def url(path: str, label: str = "", **params: object) -> Url:
    """Return a URL with parameters in the order of their names."""
    return Url(path, tuple(sorted((name, str(value)) for name, value in params.items())), label)


@dataclass(frozen=True)
class GeneratedPage:
    """Response of a site."""

    text: str
    """Its visible text, without that of links."""
    truth: str | None = None
    links: list[Url] = field(default_factory=list)
    names: tuple[str, ...] = ()
    """Texts of links that name things, in order."""
    status: int = 200

    @property
    def text_hash(self) -> int:
        """Return the hash of all its text, as a set."""
        return crc32(" ".join((self.text, *self.names)).encode())


GONE = GeneratedPage("not here", status=404)


def page(
    text: str, truth: str | None = None, links: Iterable[Url] = (), named: str = "/a/ /p/"
) -> GeneratedPage:
    """Return a page; links below the paths ``named`` have names of things as their text."""
    links = list(links)
    starts = tuple(named.split())
    names = sorted({link.path for link in links if starts and link.path.startswith(starts)})
    return GeneratedPage(text, truth, links, tuple(names))


def number(text: str | None) -> int:
    """Return a number in a URL; -1 if it is none."""
    return int(text) if text and text.isascii() and text.isdigit() else -1


class GeneratedSite:
    """Articles behind lists; subclasses add links and pages."""

    name: ClassVar[str] = "core"
    is_honest: ClassVar[bool] = False
    articles = 1000
    per_list = 20

    def __init__(self, seed: int = 1) -> None:
        self.random = random.Random(seed)

    @property
    def size(self) -> int:
        """Return the number of pages that are worth having."""
        return self.articles + self.articles // self.per_list + 1

    def fetch(self, at: Url) -> GeneratedPage:
        """Return the page of a URL."""
        found = self.core(at) or self.further(at) or GONE
        return replace(found, links=self.changed(list(found.links), at))

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the honest core, None if it is none."""
        if at.path == "/":
            return page("home", "home", [url("/list"), *self.more(-1)])
        if at.path == "/list":
            return self._list(number(at.params.get("page", "1")))
        if at.path.startswith("/a/story-"):
            return self._article(at.path)
        return None

    def _list(self, at: int) -> GeneratedPage:
        lists = self.articles // self.per_list
        if not 1 <= at <= lists:
            return GONE
        first = (at - 1) * self.per_list
        links = [story(n) for n in range(first, first + self.per_list)]
        if at < lists:
            links.append(url("/list", page=at + 1))
        return page("list", f"list {at}", [*links, *self.more(at)])

    def _article(self, path: str) -> GeneratedPage | None:
        n = number(path.split("-")[1])
        if not 0 <= n < self.articles or path != story(n).path:
            return None
        related = [story((n * 7 + k * 131) % self.articles) for k in range(6)]
        links = [url("/"), url("/list"), *related, *self.more(n)]
        return page(f"article {n}", f"article {n}", links)

    def more(self, n: int) -> list[Url]:
        """Return further links of the n-th list or article; -1: of the front page."""
        return []

    def further(self, at: Url) -> GeneratedPage | None:
        """Return a page outside of the core, None if there is none."""
        return None

    def changed(self, links: list[Url], at: Url) -> list[Url]:
        """Return the links of any page as the site writes them."""
        return links


def story(n: int) -> Url:
    """Return the URL of an article."""
    return url(f"/a/story-{n}-of-{crc32(str(n).encode()) % 997}")
