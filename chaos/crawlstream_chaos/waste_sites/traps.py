"""Sites that have an honest core, and a trap without an end."""

from __future__ import annotations

from dataclasses import replace
from zlib import crc32

from crawlstream_chaos.waste_sites.site import (
    GONE,
    GeneratedPage,
    GeneratedSite,
    Url,
    number,
    page,
    story,
    url,
)

_FIRST_MONTH, _MONTHS = 2026 * 12, 24


class Calendar(GeneratedSite):
    """Months without an end, with 48 events in two years."""

    name = "calendar"

    @property
    def size(self) -> int:
        """Return the number of pages that are worth having."""
        return super().size + 48

    def more(self, n: int) -> list[Url]:
        """Return links into the trap."""
        return [url("/events/2026/11")]

    def further(self, at: Url) -> GeneratedPage | None:
        """Return a page of the trap."""
        first, *rest = at.path.strip("/").split("/")
        date = [number(part) for part in rest]
        if first != "events" or min(date, default=-1) < 0 or len(date) not in {2, 3}:
            return None
        year, month = date[:2]
        if not 1 <= month <= 12:
            return GONE
        n = year * 12 + month - 1
        steps = [url(f"/events/{each // 12}/{each % 12 + 1}") for each in (n - 1, n + 1)]
        if len(date) == 2:
            return page("month", None, steps + [url(f"{at.path}/{day}") for day in range(1, 29)])
        if date[2] > 28:
            return GONE
        if _FIRST_MONTH <= n + 1 < _FIRST_MONTH + _MONTHS and date[2] and date[2] % 10 == 0:
            return page(f"event {date}", f"event {date}", steps)
        return page("no events", None, steps)


class SessionIds(GeneratedSite):
    """Each link has a session id of its own, under an unknown name."""

    name = "session id"
    _NAME = "s_id9"

    def changed(self, links: list[Url], at: Url) -> list[Url]:
        """Return the links as this site writes them."""
        session = f"{self.random.getrandbits(40):x}"
        return [link.with_(**{self._NAME: session}) for link in links]

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        return super().core(at.without(self._NAME))


class Orders(GeneratedSite):
    """Lists by order, view, size and filter: other addresses of known articles."""

    name = "orders and filters"
    _OPTIONS = (
        ("sort", 6),
        ("view", 3),
        ("per", 3),
        ("dir", 2),
        ("colour", 8),
        ("size", 5),
        ("stock", 2),
    )
    _FILTERS = frozenset({"colour", "size", "stock"})

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        names = [name for name, _ in self._OPTIONS]
        found = super().core(at.without(*names))
        if found is None or at.path != "/list" or found.status != 200:
            return found
        links, truth = found.links, found.truth
        if not at.params.keys().isdisjoint(names):
            truth = None
        if not at.params.keys().isdisjoint(self._FILTERS):
            links = [each for each in links if crc32(f"{each}{at.query}".encode()) % 3 == 0]
        options = [
            at.with_(**{name: value})
            for name, most in self._OPTIONS
            for value in self.random.sample(range(most), 2)
        ]
        return replace(found, truth=truth, links=links + options)


class GrowingPaths(GeneratedSite):
    """Relative links that each add two segments to the path."""

    name = "growing paths"
    _WORDS = ("de", "more", "info", "x", "view", "all")

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path.count("/a/") > 1:
            at = at._replace(path="/a/" + at.path.rsplit("/a/", 1)[1])
        return super().core(at)

    def changed(self, links: list[Url], at: Url) -> list[Url]:
        """Return the links as this site writes them."""
        if not at.path.startswith("/a/"):
            return links
        base = at.path.rsplit("/", 1)[0]
        names = [link.path.rsplit("/a/", 1)[1] for link in links if link.path.startswith("/a/")]
        word = self.random.choice(self._WORDS)
        return links + [url(f"{base}/{word}/a/{name}") for name in names[:3]]


class SoftErrors(GeneratedSite):
    """Broken links, for which the site answers 200 with further broken links."""

    name = "soft 404"
    _WORDS = ("red", "blue", "iron", "gold", "moon", "lake", "tree", "fish", "wind", "salt")

    def _broken(self) -> Url:
        words = "-".join(self.random.choices(self._WORDS, k=4))
        return url(f"/a/{words}-{self.random.randrange(9999)}")

    def more(self, n: int) -> list[Url]:
        """Return links into the trap."""
        return [self._broken()]

    def further(self, at: Url) -> GeneratedPage | None:
        """Return a page of the trap."""
        if not at.path.startswith("/a/"):
            return None
        return page("not found", None, [*(self._broken() for _ in range(4)), url("/list")], "")


class AnyHost(GeneratedSite):
    """Each host label shows the whole site."""

    name = "any host name"

    def changed(self, links: list[Url], at: Url) -> list[Url]:
        """Return the links as this site writes them."""
        here = [link._replace(label=at.label) for link in links]
        label = f"s{self.random.randrange(10**6)}"
        return here + [link._replace(label=label) for link in links[:4]]


class Searches(GeneratedSite):
    """A search for any two words, whose pages show snippets: each text is new."""

    name = "searches"
    _WORDS = tuple(f"w{chr(97 + i)}{chr(97 + j)}" for i in range(20) for j in range(20))

    def _queries(self, count: int) -> list[Url]:
        return [
            url("/search", q=" ".join(self.random.choices(self._WORDS, k=2))) for _ in range(count)
        ]

    def more(self, n: int) -> list[Url]:
        """Return links into the trap."""
        return self._queries(3)

    def further(self, at: Url) -> GeneratedPage | None:
        """Return a page of the trap."""
        query = at.params.get("q")
        if at.path != "/search" or query is None:
            return None
        found = [story(crc32(f"{query}{k}".encode()) % self.articles) for k in range(8)]
        return page(f"snippets {query}", None, found + self._queries(6))


class Maze(GeneratedSite):
    """Random text, as tarpits serve it."""

    name = "maze"

    def _door(self) -> Url:
        return url(f"/maze/{self.random.getrandbits(32):x}")

    def more(self, n: int) -> list[Url]:
        """Return links into the trap."""
        return [self._door()] if n % 10 == 0 else []

    def further(self, at: Url) -> GeneratedPage | None:
        """Return a page of the trap."""
        if not at.path.startswith("/maze/"):
            return None
        return page(f"noise {at.path}", None, [self._door() for _ in range(8)])


TRAPS = (Calendar, SessionIds, Orders, GrowingPaths, SoftErrors, AnyHost, Searches, Maze)
