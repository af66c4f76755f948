"""A web with every kind of fault, made from a seed number, that knows what must become of each URL.

Its pages form a tree, so that each is found, and have links across it. Redirects, loops, errors
that pass and errors that stay, slow, silent, cut and garbled answers are spread over all hosts; a
host has few silences, too few in a row for its domain to be left alone. Nothing depends on the
order in which pages are fetched, so a crawl without a limit of depth has one right outcome:
:attr:`FaultWeb.truth`.
"""

from __future__ import annotations

import gzip
import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from random import Random

from crawlstream.model.url import canonical
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, Page, SeenRequest, serving

DEPTH = 100
"""A ``maxdepth`` that ends no crawl of such a web."""
PAGES_A_HOST = 50
_CHILDREN = 5
_MAX_REDIRECTS = 10
_BOMB = gzip.compress(bytes(20 << 20))
"""More than DOWNLOAD_MAXSIZE, once it is decompressed."""


@dataclass(frozen=True, slots=True)
class Fate:
    """Expected result of a URL."""

    outcome: str
    """``done``, ``failed`` or ``redirected``."""
    word: int | str = ""
    """The status of its result, or the reason of its failure."""
    visits: int = 1
    """Requests that the site sees if nothing but the web itself fails."""


GOOD = Fate("done", 200)
MOVED = Fate("redirected")

_WITH_LINKS = {
    "plain": 76, "malformed": 4, "slow": 2, "flaky": 5, "query": 4, "zipped": 3, "away": 6,
}  # fmt: skip
_WITHOUT = {
    "plain": 56, "flaky": 5, "away": 6, "seen": 6, "gone": 8, "broken": 2, "binary": 4, "latin1": 4,
    "empty": 3, "unzippable": 2, "garbage": 2, "bomb": 1, "loop": 1,
}  # fmt: skip
"""Weights of the kinds of pages, of those that others hang on and of those that none does."""


class FaultWeb:
    """The pages of a web on ``127.0.0.0/8``, for a :class:`CrawlerSite`, and the truth of them."""

    def __init__(
        self,
        port: int,
        *,
        pages: int = 300,
        seed: int = 1,
        first_host: str = "127.0.0.1",
        retry_times: int = 3,
        slow_s: float = 0.3,
        silent_s: float = 30,
    ) -> None:
        """``retry_times`` as the crawlers have it; ``silent_s`` is more than they wait."""
        self._port = port
        self._chance = Random(seed)
        self._attempts = 1 + retry_times
        self._slow_s = slow_s
        self._silent_s = silent_s
        count = max(pages // PAGES_A_HOST, 2)
        self.hosts = [str(IPv4Address(first_host) + number) for number in range(count)]
        self.pages: dict[str, Page] = {}
        """Pages by path, as :class:`CrawlerSite` takes them."""
        self.truth: dict[str, Fate] = {}
        """By the identity of a URL: results and events name the spelling that was found first."""
        self._kinds = [self._kind_of(number, pages) for number in range(pages)]
        self.seed_url = self._url(0)
        for number in range(pages):
            self._add(number)
        self._add_elsewhere()

    @property
    def delivered(self) -> dict[str, int | str]:
        """Status by URL of every page that ends as a result."""
        return {url: fate.word for url, fate in self.truth.items() if fate.outcome == "done"}

    @property
    def failures(self) -> dict[str, int | str]:
        """Reason by URL of every page that fails."""
        return {url: fate.word for url, fate in self.truth.items() if fate.outcome == "failed"}

    @property
    def counts(self) -> Counter[str]:
        """How many URLs come to each outcome; together they are what is admitted."""
        return Counter(fate.outcome for fate in self.truth.values())

    @property
    def visits(self) -> dict[str, int]:
        """How often each URL is asked for while nothing else fails."""
        return {url: fate.visits for url, fate in self.truth.items() if fate.visits}

    # Its pages.

    def _kind_of(self, number: int, pages: int) -> str:
        if number == 0:
            return "plain"
        if _CHILDREN * number + 1 < pages:
            return self._drawn(_WITH_LINKS)
        # A page for each host, numbered like it.
        if number % PAGES_A_HOST == PAGES_A_HOST - 1:
            return self._chance.choice(["cut", "silent", "hung_up"])
        return "chain" if number == pages - 2 else self._drawn(_WITHOUT)

    def _drawn(self, weights: Mapping[str, int]) -> str:
        return self._chance.choices(list(weights), list(weights.values()))[0]

    def _host(self, number: int) -> str:
        if number % PAGES_A_HOST == PAGES_A_HOST - 1:
            return self.hosts[number // PAGES_A_HOST % len(self.hosts)]
        return self.hosts[number * 7919 % len(self.hosts)]

    def _path(self, number: int) -> str:
        query = "?a=1&b=2" if self._kinds[number] == "query" else ""
        return f"/{number}{query}"

    def _url(self, number: int) -> str:
        return self._at(self._host(number), self._path(number))

    def _at(self, host: str, path: str) -> str:
        return f"http://{host}:{self._port}{path}"

    def _add(self, number: int) -> None:
        make: Callable[[int], tuple[Page, Fate]] = getattr(self, f"_{self._kinds[number]}")
        page, fate = make(number)
        self._put(self._host(number), self._path(number), page, fate)

    def _put(self, host: str, path: str, page: Page, fate: Fate) -> str:
        url = self._at(host, path)
        self.pages[host + path] = self.pages[host + _otherwise(path)] = page
        self.truth[url] = fate
        return url

    def _add_elsewhere(self) -> None:
        """Add links of the front page to addresses outside this web."""
        front = self.pages[self._host(0) + self._path(0)]
        assert isinstance(front, Answer)
        elsewhere = {
            "http://127.255.255.1:9/": Fate("failed", "refused", 0),
            "http://no-such-host.invalid/": Fate("failed", "dns", 0),
            "http://10.1.2.3/": Fate("failed", "address_refused", 0),
        }
        self.truth |= elsewhere
        body = front.body + _anchors([*elsewhere, "mailto:nobody@a.example", "#top"])
        self.pages[self._host(0) + self._path(0)] = Answer(body)

    # Targets of links.

    def _body(self, number: int) -> bytes:
        """Links to the page's children, and across."""
        first, count = _CHILDREN * number + 1, len(self._kinds)
        children = range(min(first, count), min(first + _CHILDREN, count))
        across = [self._chance.randrange(count) for _ in range(3)]
        hrefs = [*map(self._href, children), *(f"{self._href(each)}#part" for each in across)]
        return b"<html><head><title>%d</title></head><body>" % number + _anchors(hrefs)

    def _href(self, number: int) -> str:
        url = self._url(number)
        return _otherwise(url).replace("&", "&amp;") if number % 2 else url

    # A method for each kind: the answers, and the expected result.

    def _plain(self, number: int) -> tuple[Page, Fate]:
        return Answer(self._body(number)), GOOD

    _query = _plain

    def _malformed(self, number: int) -> tuple[Page, Fate]:
        return Answer(b"<p <b>1 < 2</i>" + self._body(number) + b"<table><a name=x <!-- "), GOOD

    def _slow(self, number: int) -> tuple[Page, Fate]:
        return Answer(self._body(number), after_s=self._slow_s), GOOD

    def _flaky(self, number: int) -> tuple[Page, Fate]:
        trouble = Answer(b"soon", status=self._chance.choice([500, 502, 504]))
        return _first(trouble, Answer(self._body(number))), Fate("done", 200, 2)

    def _zipped(self, number: int) -> tuple[Page, Fate]:
        body = gzip.compress(self._body(number))
        return Answer(body, headers={**HTML, "Content-Encoding": "gzip"}), GOOD

    def _latin1(self, _number: int) -> tuple[Page, Fate]:
        return Answer("<p>Grüße".encode("latin-1"), headers={"Content-Type": "text/html"}), GOOD

    def _binary(self, number: int) -> tuple[Page, Fate]:
        return Answer(bytes([number % 256, 0, 255]), headers={"Content-Type": "image/png"}), GOOD

    def _empty(self, _number: int) -> tuple[Page, Fate]:
        return Answer(), GOOD

    def _gone(self, _number: int) -> tuple[Page, Fate]:
        status = self._chance.choice([403, 404, 410])
        return Answer(b"<h1>gone", status=status), Fate("done", status)

    def _broken(self, _number: int) -> tuple[Page, Fate]:
        return Answer(b"<h1>sorry", status=500), Fate("done", 500, self._attempts)

    def _away(self, number: int) -> tuple[Page, Fate]:
        """The page itself is on another host."""
        host = self._host(number + 1)
        target = self._put(host, f"/{number}/there", Answer(self._body(number)), GOOD)
        status = self._chance.choice([301, 302, 303, 307, 308])
        return Answer(status=status, headers={"Location": target}), MOVED

    def _seen(self, number: int) -> tuple[Page, Fate]:
        """It leads to its parent, which every crawl has seen."""
        parent = self._url((number - 1) // _CHILDREN)
        return Answer(status=302, headers={"Location": parent}), MOVED

    def _loop(self, number: int) -> tuple[Page, Fate]:
        there, back = f"/{number}/back", self._url(number)
        fate = Fate("failed", "redirect_loop")
        answer = Answer(status=302, headers={"Location": back})
        self._put(self._host(number), there, answer, fate)
        return Answer(status=301, headers={"Location": there}), MOVED

    def _chain(self, number: int) -> tuple[Page, Fate]:
        """A chain of one redirect more than is followed."""
        host = self._host(number)
        for hop in range(1, _MAX_REDIRECTS + 1):
            answer = Answer(status=302, headers={"Location": f"/{number}/{hop + 1}"})
            last = hop == _MAX_REDIRECTS
            fate = Fate("failed", "too_many_redirects") if last else MOVED
            self._put(host, f"/{number}/{hop}", answer, fate)
        return Answer(status=302, headers={"Location": f"/{number}/1"}), MOVED

    def _unzippable(self, _number: int) -> tuple[Page, Fate]:
        headers = {**HTML, "Content-Encoding": "gzip"}
        return Answer(b"no gzip at all", headers=headers), Fate("failed", "bad_encoding")

    def _bomb(self, _number: int) -> tuple[Page, Fate]:
        headers = {**HTML, "Content-Encoding": "gzip"}
        return Answer(_BOMB, headers=headers), Fate("failed", "too_large")

    def _garbage(self, _number: int) -> tuple[Page, Fate]:
        fate = Fate("failed", "bad_response", self._attempts)
        return Answer(raw=b"\x00\x01\x02 no http\r\n\r\n"), fate

    def _cut(self, _number: int) -> tuple[Page, Fate]:
        fate = Fate("failed", "connection_lost", self._attempts)
        return Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"), fate

    def _hung_up(self, _number: int) -> tuple[Page, Fate]:
        return Answer(raw=b""), Fate("failed", "connection_lost", self._attempts)

    def _silent(self, _number: int) -> tuple[Page, Fate]:
        return Answer(after_s=self._silent_s), Fate("failed", "timeout", self._attempts)


def _anchors(hrefs: Sequence[str]) -> bytes:
    return "".join(f'<a href="{href}">{href}</a>\n' for href in hrefs).encode()


def _first(trouble: Answer, then: Answer) -> Page:
    """Answer the first visitor and the others differently."""
    visits = itertools.count()

    def answer(_visit: SeenRequest) -> Answer:
        return trouble if next(visits) == 0 else then

    return answer


@contextmanager
def serving_faults(**shape: float | str) -> Iterator[tuple[FaultWeb, CrawlerSite]]:
    """Serve such a web for the length of the block; ``shape`` as :class:`FaultWeb` takes it."""
    with serving({}) as site:
        web = FaultWeb(site.port, **shape)  # type: ignore[arg-type]
        site.pages |= web.pages
        yield web, site


def _otherwise(url: str) -> str:
    """Return another spelling of a page with a query."""
    return url.replace("?a=1&b=2", "?b=2&a=1")


def visits_by_url(site: CrawlerSite) -> Counter[str]:
    """How often each page was asked for, in whatever spelling; robots.txt left out."""
    return Counter(
        canonical(site.url(visit.path, visit.host))
        for visit in site.visits
        if visit.path != "/robots.txt"
    )
