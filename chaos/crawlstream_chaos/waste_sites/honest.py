"""Honest sites that look like traps."""

from __future__ import annotations

from zlib import crc32

from crawlstream_chaos.waste_sites.site import (
    GONE,
    GeneratedPage,
    GeneratedSite,
    Url,
    number,
    page,
    url,
)


def _spread(text: str, buckets: int) -> int:
    return crc32(text.encode()) % buckets


class Shop(GeneratedSite):
    """Categories that show 60 of their 100 products; the others are behind brand and colour."""

    name, is_honest = "shop with facets", True
    size = 2001

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path == "/":
            return page("home", "home", [url(f"/c/{c}") for c in range(20)])
        if at.path.startswith("/c/"):
            return self._category(at)
        if at.path.startswith("/p/"):
            n = number(at.path[3:].split("-")[0])
            if 0 <= n < 2000 and at.path == self._product(n).path:
                return page(f"product {n}", f"product {n}", [url("/"), url(f"/c/{n // 100}")])
        return None

    def _product(self, n: int) -> Url:
        return url(f"/p/{n}-{_spread(str(n), 9973)}")

    def _category(self, at: Url) -> GeneratedPage:
        category, params = number(at.path[3:]), at.params
        if not 0 <= category < 20:
            return GONE
        products = list(range(category * 100, category * 100 + 100))
        if "brand" in params:
            products = [n for n in products if str(n % 7) == params["brand"]]
        if "colour" in params:
            products = [n for n in products if str(_spread(f"c{n}", 6)) == params["colour"]]
        if not products:
            return page("no products", None, [url(at.path)])
        if "brand" not in params and "colour" not in params:
            products = products[:60]
        n = number(params.get("page", "1"))
        shown = products[(n - 1) * 20 : n * 20] if n > 0 else []
        if not shown:
            return GONE
        first = at.without("page")
        links = [self._product(each) for each in shown]
        links += [first.with_(page=n + 1)] if len(products) > n * 20 else []
        links += [first.with_(brand=each) for each in range(7)]
        links += [first.with_(colour=each) for each in range(6)]
        links += [first.with_(sort=each) for each in ("up", "down", "new")]
        return page("listing", None, links)


class Forum(GeneratedSite):
    """300 threads of 1 to 12 pages; each post has an address that shows its page again."""

    name, is_honest = "forum", True

    @property
    def size(self) -> int:
        """Return the number of pages that are worth having."""
        return 16 + sum(self._pages(thread) for thread in range(300))

    def _pages(self, thread: int) -> int:
        return 1 + _spread(f"t{thread}", 12)

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path == "/":
            return page("home", "home", [url("/f")])
        n = number(at.params.get("page", "1"))
        if at.path == "/f":
            if not 1 <= n <= 15:
                return GONE
            threads = [url("/t", id=thread) for thread in range(n * 20 - 20, n * 20)]
            return page("threads", f"f{n}", threads + [url("/f", page=n + 1)] * (n < 15))
        thread = number(at.params.get("id"))
        return self._thread(thread, n, at) if at.path == "/t" and 0 <= thread < 300 else None

    def _thread(self, thread: int, n: int, at: Url) -> GeneratedPage:
        if "post" in at.params:
            n = 1 + max(number(at.params["post"]), 0) // 10
        if not 1 <= n <= self._pages(thread):
            return GONE
        links = [url("/t", id=thread, post=10 * (n - 1) + k) for k in range(10)]
        if n < self._pages(thread):
            links.append(url("/t", id=thread, page=n + 1))
        return page(f"thread {thread} {n}", f"t{thread}.{n}", links)


class Wiki(GeneratedSite):
    """500 articles, and 2 000 stubs whose text is the same but for their name."""

    name, is_honest = "wiki of stubs", True
    size = 2501

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path == "/":
            return page("home", "home", [self._page(n) for n in range(0, 500, 10)])
        n = number(at.path.removeprefix("/wiki/N"))
        if not 0 <= n < self.size - 1:
            return None
        if n >= 500:
            return page(f"a village of {n % 20}", f"w{n}", [self._page(n % 20), url("/")])
        stubs = [self._page(500 + n * 4 + k) for k in range(4)]
        return page(f"article {n}", f"w{n}", stubs + self._related(n))

    def _page(self, n: int) -> Url:
        return url(f"/wiki/N{n}")

    def _related(self, n: int) -> list[Url]:
        return [self._page((n * 3 + k) % 500) for k in range(8)]


class ManyStubs(Wiki):
    """10 000 stubs with twenty texts."""

    name = "ten thousand stubs"
    size = 10501

    def _related(self, n: int) -> list[Url]:
        return super()._related(n) + [self._page(2500 + n * 16 + k) for k in range(16)]


class News(GeneratedSite):
    """Stories below dates, and an archive by day in which one day of three is empty."""

    name, is_honest = "news by date", True
    _YEARS = (2024, 2025, 2026)

    @property
    def size(self) -> int:
        """Return the number of pages that are worth having."""
        days = (f"{y}/{m}/{d}" for y in self._YEARS for m in range(1, 13) for d in range(1, 29))
        return 1 + sum(_spread(day, 3) for day in days)

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path == "/":
            return page(
                "home", "home", [url(f"/{y}/{m}") for y in self._YEARS for m in range(1, 13)]
            )
        parts = at.path.strip("/").split("/")
        date = [number(part) for part in parts[:3]]
        if date[0] not in self._YEARS or len(parts) < 2 or not 1 <= date[1] <= 12:
            return None
        if len(parts) == 2:
            return page("month", None, [url(f"{at.path}/{day}") for day in range(1, 29)])
        if not 1 <= date[2] <= 28:
            return None
        day = "/".join(parts[:3])
        stories = [url(f"/{day}/s{k}-word") for k in range(_spread(day, 3))]
        if len(parts) == 3:
            return page(f"day {day}" if stories else "empty day", None, stories)
        is_story = at.path in {each.path for each in stories}
        return page(f"story {at.path}", at.path, [url("/")]) if is_story else None


class Versions(GeneratedSite):
    """300 pages in eight versions; most are the same in all."""

    name, is_honest = "docs in versions", True

    @property
    def size(self) -> int:
        """Return the number of pages that are worth having."""
        return 1 + len(
            {(n, self._edition(v, n)) for n in range(300) for v in range(8) if self._has(v, n)}
        )

    def _edition(self, version: int, n: int) -> int:
        return version if _spread(str(n), 10) < 3 else 0

    def _has(self, version: int, n: int) -> bool:
        return n % 10 != 9 or version <= 3

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path == "/":
            return page("home", "home", [url(f"/v{version}/p0") for version in range(8)])
        first, _, second = at.path.strip("/").partition("/")
        version, n = number(first[1:]), number(second[1:])
        if not 0 <= version < 8 or not 0 <= n < 300 or not self._has(version, n):
            return GONE
        links = [url(f"/v{version}/p{(n + k) % 300}") for k in (1, 2, 7, 31, 101)]
        text = f"doc {n} {self._edition(version, n)}"
        return page(text, text, [*links, url(f"/v{(version + 1) % 8}/p{n}")])


class Languages(GeneratedSite):
    """200 pages in twelve languages; what is not translated is shown in English."""

    name, is_honest = "languages", True

    @property
    def size(self) -> int:
        """Return the number of pages that are worth having."""
        return 1 + len({(n, self._shown(n, k)) for n in range(200) for k in range(12)})

    def _shown(self, n: int, language: int) -> int:
        return language if 0 <= language < 12 and _spread(f"{n}.{language}", 3) == 0 else 0

    def core(self, at: Url) -> GeneratedPage | None:
        """Return a page of the site."""
        if at.path == "/":
            return page("home", "home", [url("/p/0", lang=k) for k in range(12)])
        n = number(at.path.removeprefix("/p/"))
        if not 0 <= n < 200:
            return None
        language = max(number(at.params.get("lang")), 0)
        links = [url(f"/p/{(n + k) % 200}", lang=language) for k in (1, 2, 3, 17)]
        text = f"text {n} {self._shown(n, language)}"
        return page(text, text, links + [url(f"/p/{n}", lang=k) for k in range(12)])


HONEST = (Shop, Forum, Wiki, News, Versions, Languages)
