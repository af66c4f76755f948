"""An oddity: answers of a site, and the requests that it must get.

Each case has a host of its own, and a second one that is called ``other:`` in its table. Hosts
below ``.example`` are called by their names. In what a site says, ``{at}`` stands for its host and
port, ``{host}`` and ``{port}`` for each of them, ``{other}`` for those of the second one.
"""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from crawlstream.model.web.address import without_fragment
from crawlstream_chaos.scripted_site import HTML, Answer, CrawlerSite, SeenRequest

Said = str | bytes | Answer | Callable[[SeenRequest], Answer]
"""Answer at each path; a text is a page in UTF-8."""

ROBOTS = "/robots.txt"
OTHER = "other:"


@dataclass(frozen=True, slots=True)
class Case:
    """A page or a small site that is odd, and its referee."""

    name: str
    pages: Mapping[str, Said]
    """By path, or by host and path: ``/a``, ``other:/a``, ``name.example/a``."""
    asked: Sequence[str] = ()
    """Requests besides the seed and the robots.txt of its host, with their number, exactly as they
    are on the wire."""
    seed: str = "/"
    """A path, or a whole URL: then ``asked`` has all of the requests."""
    cookies: Mapping[str, str] = field(default_factory=dict)
    """The Cookie header of requests; the others have none."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Pages that fail, and the reason."""
    filtered: Mapping[str, int] = field(default_factory=dict)
    """How many links are not followed, by reason."""
    spider: str = ""
    """Other than that of links."""
    request: Mapping[str, object] = field(default_factory=dict)
    """Further fields of the crawl request."""


def answer(body: str | bytes = "", status: int = 200, **headers: str) -> Answer:
    """Make a response; of the names of headers, ``_`` is ``-``. A type of None leaves it out."""
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    kind = {} if any(name.lower() == "content-type" for name in said) else HTML
    raw = body.encode() if isinstance(body, str) else body
    return Answer(raw, status, {**kind, **{k: v for k, v in said.items() if v}})


def moved(to: str, status: int = 302, **headers: str) -> Answer:
    """Make a redirect."""
    return answer(b"", status, Location=to, **headers)


def links(*hrefs: str) -> str:
    """Write a page with some links."""
    return "".join(f'<a href="{href}">x</a>' for href in hrefs)


def text(body: str | bytes) -> Answer:
    """Make a response of plain text."""
    return answer(body, Content_Type="text/plain")


def urlset(*paths: str) -> str:
    """Write a sitemap of pages on its own host."""
    urls = "".join(f"<url><loc>http://{{at}}{path}</loc></url>" for path in paths)
    return f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'


def xml(body: str | bytes) -> Answer:
    """Make a response of XML."""
    return answer(body, Content_Type="application/xml")


def members(*parts: str) -> Callable[[SeenRequest], Answer]:
    """Make a gzip file of several members."""

    def packed(visit: SeenRequest) -> Answer:
        at = visit.headers["host"]
        body = b"".join(gzip.compress(part.replace("{at}", at).encode()) for part in parts)
        return answer(body, Content_Type="application/gzip")

    return packed


class OddSite(CrawlerSite):
    """Answers for all cases, and notes who was asked for what."""

    def place(self, cases: Iterable[Case], network: str) -> list[Placed]:
        """Give each case its hosts, in a network ``127.x``."""
        placed = [Placed(case, number, network, self) for number, case in enumerate(cases)]
        for each in placed:
            self.pages |= each.pages()
        return placed


class Placed:
    """A case on the hosts that it has on a site."""

    def __init__(self, case: Case, number: int, network: str, site: OddSite) -> None:
        self.case = case
        self._site = site
        third, last = number // 100, 2 * (number % 100) + 1
        self.host, self._other = (f"{network}.{third}.{each}" for each in (last, last + 1))

    @property
    def seed_url(self) -> str:
        """Where the crawl begins."""
        seed = self.case.seed
        return self._site.url(seed, self.host) if seed.startswith("/") else self._filled(seed)

    def pages(self) -> dict[str, Callable[[SeenRequest], Answer] | Answer]:
        """Return what is found at each host and path."""
        return {self._key(path): self._page(said) for path, said in self.case.pages.items()}

    def label(self, url: str) -> str:
        """Return what the case calls a URL of its own."""
        host, slash, path = without_fragment(url).removeprefix("http://").partition("/")
        name = host.partition(":")[0]
        return {self.host: "", self._other: OTHER}.get(name, name) + slash + path

    def visits(self) -> list[SeenRequest]:
        """Return the requests to its hosts, in the order in which they came."""
        hosts = {self.host, self._other} | {
            label.partition("/")[0] for label in (*self.case.pages, *self.case.asked)
        }
        return [visit for visit in self._site.visits if visit.host in hosts]

    def asked(self) -> list[str]:
        """Return the same by their names in the case."""
        return [self.label(f"http://{visit.host}{visit.path}") for visit in self.visits()]

    def to_be_asked(self) -> Counter[str]:
        """Return what the requests have to be."""
        own = [ROBOTS, self.case.seed] if self.case.seed.startswith("/") else []
        own = [each for each in own if each not in self.case.failed]
        return Counter([*own, *self.case.asked])

    def _key(self, label: str) -> str:
        host, _, path = label.partition("/")
        return {"": self.host, OTHER: self._other}.get(host, host) + "/" + path

    def _filled(self, said: str) -> str:
        port = str(self._site.port)
        for mark, host in (("{at}", self.host), ("{other}", self._other)):
            said = said.replace(mark, f"{host}:{port}")
        return said.replace("{port}", port).replace("{host}", self.host)

    def _page(self, said: Said) -> Callable[[SeenRequest], Answer] | Answer:
        if isinstance(said, str | bytes):
            said = answer(said)
        if not isinstance(said, Answer):
            return said
        headers = {name: self._filled(value) for name, value in said.headers.items()}
        more = [(name, self._filled(value)) for name, value in said.more_headers]
        raw = None if said.raw is None else self._octets(said.raw)
        return Answer(self._octets(said.body), said.status, headers, more, raw=raw)

    def _octets(self, said: bytes) -> bytes:
        return self._filled(said.decode("latin-1")).encode("latin-1")
