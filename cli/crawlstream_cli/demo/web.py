"""A web made from a seed number: hosts, pages, and the links between them.

The pages form a tree, so that every page is found first on its parent. All other links lead to
pages that a crawl must have admitted before it can fetch the page they stand on: ancestors,
siblings, and siblings of the parent. So the depth at which a crawl finds a page does not depend
on the order in which hosts answer, and a crawl with a depth limit has exactly one right result.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import IPv4Address
from itertools import cycle
from random import Random

LOCAL_HOSTS_FROM = "127.0.0.1"
"""Linux answers on all of 127.0.0.0/8; other systems on this one address only."""

_DEPTH = 3
"""Levels below the front page that hold most pages; the rest lies deeper."""
_SHALLOW = 0.93
"""Share of the pages within those levels."""
_SPECIAL_EVERY = 5
"""Number of pages for one that is not a plain page."""
_CROSSING = 0.3
"""Share of pages that lie on another host than the page they are found on."""
_FILE_TYPES = ("zip", "pdf", "png", "mp3")
_THINGS = (
    "anchor", "bell", "bridge", "buoy", "canal", "chart", "compass", "crane", "dune", "ferry",
    "gull", "harbour", "heron", "inlet", "island", "kelp", "lantern", "ledger", "lock", "marsh",
    "mast", "mill", "mooring", "oar", "orchard", "pier", "quay", "reef", "rope", "sail", "shoal",
    "signal", "spring", "strait", "tide", "tower", "wharf", "willow",
)  # fmt: skip
_LOOKS = (
    "amber", "bright", "broad", "calm", "clear", "copper", "distant", "early", "eastern", "faint",
    "green", "grey", "hidden", "late", "little", "long", "narrow", "northern", "old", "pale",
    "quiet", "red", "round", "silver", "slow", "southern", "steep", "still", "white", "wide",
)  # fmt: skip


class ContentKind(StrEnum):
    """Content of a URL."""

    PAGE = "page"
    LATIN1 = "latin1"
    """A page in ISO-8859-1."""
    MALFORMED = "malformed"
    """A page whose markup is broken in the usual ways; its links can be read all the same."""
    SLOW = "slow"
    """A page that takes its time."""
    FLAKY = "flaky"
    """500 at the first visit, a page from then on."""
    MISSING = "missing"
    """404."""
    IMAGE = "image"
    """A PNG without an extension in its URL."""
    FILE = "file"
    """A file with an extension that pages do not have."""
    FORBIDDEN = "forbidden"
    """A page that robots.txt asks to leave alone."""
    MOVED = "moved"
    """A redirect to its only child, on another host."""
    MOVED_BACK = "moved-back"
    """A redirect to the page that links to it: one that a crawl has seen."""


_DECK = (
    ContentKind.MOVED,
    ContentKind.MALFORMED,
    ContentKind.LATIN1,
    ContentKind.FLAKY,
    ContentKind.MISSING,
    ContentKind.IMAGE,
    ContentKind.MOVED_BACK,
    ContentKind.FILE,
    ContentKind.FORBIDDEN,
)
MOVED_ROBOTS, OPEN_ROBOTS = "/moved/robots.txt", "/moved/open.txt"
"""Targets of a robots.txt that redirects: the host's own rules, and a file that allows all."""
_LEAVES = frozenset(
    (
        ContentKind.MISSING,
        ContentKind.IMAGE,
        ContentKind.FILE,
        ContentKind.FORBIDDEN,
        ContentKind.MOVED_BACK,
    )
)
_PRICED = frozenset((ContentKind.PAGE, ContentKind.SLOW, ContentKind.LATIN1))
_FOLDERS = {
    ContentKind.FORBIDDEN: "private",
    ContentKind.FILE: "files",
    ContentKind.IMAGE: "pictures",
}


@dataclass(slots=True, kw_only=True)
class SitePage:
    """A URL of the web. Numbers are those of :attr:`Web.pages`; the front page is 0."""

    number: int
    host: str
    path: str
    """From the slash on, query included."""
    title: str
    kind: ContentKind
    parent: int | None
    children: list[int] = field(default_factory=list)
    """Pages that are found here first."""
    asides: tuple[int, ...] = ()
    """Pages linked here that were found before this one could be."""


class Web:
    """``pages`` pages on ``hosts`` loopback addresses from ``first_host`` on, all on one port.

    ``slow_pages`` of them take ``slow_s`` seconds. Bodies have at least ``page_bytes`` bytes. With
    ``further`` above 0 pages have no links: a script in each sends ``further`` requests to their
    host, and the first is answered with the links. With ``moves_robots`` every robots.txt redirects
    first: on the host itself, or if the host has none, to a file of another host that allows all.
    Of ``noindex`` pages one says so, if it has text; of ``reserved`` pages another one is reserved
    for training. Of ``priced`` pages one costs money, if it is plain and no others are found there.
    ``scheme`` is http, or https for a site with a certificate.

    The same arguments make the same web; the front page is the seed from which all others are
    found.
    """

    def __init__(  # noqa: PLR0913 all but the first are keywords, and rarely needed
        self,
        port: int,
        *,
        hosts: int = 8,
        pages: int = 150,
        seed: int = 1,
        first_host: str = LOCAL_HOSTS_FROM,
        slow_pages: int = 1,
        slow_s: float = 1.0,
        page_bytes: int = 0,
        further: int = 0,
        moves_robots: int = 0,
        noindex: int = 0,
        reserved: int = 0,
        priced: int = 0,
        scheme: str = "http",
    ) -> None:
        if not 1 <= hosts <= pages:
            raise ValueError(f"a web needs at least one page a host: {hosts} hosts, {pages} pages")
        self.port = port
        self.slow_s = slow_s
        self.page_bytes = page_bytes
        self.further = further
        self.moves_robots = moves_robots
        self.noindex = noindex
        self.reserved = reserved
        self.priced = priced
        self.scheme = scheme
        self.hosts: tuple[str, ...] = tuple(
            str(IPv4Address(first_host) + offset) for offset in range(hosts)
        )
        builder = _Builder(self.hosts, pages, Random(seed))  # noqa: S311  a repeatable web
        self.pages: Sequence[SitePage] = builder.build(slow_pages)
        self._by_address = {(page.host, page.path): page for page in self.pages}

    @property
    def seed_url(self) -> str:
        """The front page of the first host, from which every page can be reached."""
        return self.url(self.pages[0])

    def url(self, page: SitePage) -> str:
        """The absolute URL of a page."""
        return f"{self.origin(page.host)}{page.path}"

    def origin(self, host: str) -> str:
        """``scheme://host:port`` for one of the hosts."""
        return f"{self.scheme}://{host}:{self.port}"

    def find(self, host: str, path: str) -> SitePage | None:
        """The page at a path of a host, query included; None where there is none."""
        return self._by_address.get((host, path))

    def target(self, page: SitePage) -> SitePage:
        """Return where a moved page sends its visitors."""
        return self.pages[page.children[0] if page.kind is ContentKind.MOVED else page.parent or 0]

    def robots(self, host: str) -> str | None:
        """The robots.txt of a host; None where it has none, as on every fourth."""
        if self.hosts.index(host) % 4 == 3:
            return None
        folder = _FOLDERS[ContentKind.FORBIDDEN]
        lines = ["# What robots may read here", "User-agent: *", f"Disallow: /{folder}/"]
        paths = (page.path for page in self.pages if page.host == host and self._by_path(page))
        return "\n".join([*lines, *(f"Content-Usage: {path}$ train-ai=n" for path in paths), ""])

    def robots_target(self, host: str) -> str:
        """Return where the robots.txt of a host redirects to, if they do."""
        if self.robots(host) is not None:
            return self.origin(host) + MOVED_ROBOTS
        number = self.hosts.index(host)
        return self.origin(self.hosts[(number + 1) % len(self.hosts)]) + OPEN_ROBOTS

    def says_noindex(self, page: SitePage) -> bool:
        """Return whether a page asks not to be kept."""
        return bool(self.noindex) and _has_text(page) and page.number % self.noindex == 1

    def is_reserved(self, page: SitePage) -> bool:
        """Return whether a page is reserved for training, in robots.txt or by itself."""
        is_one = bool(self.reserved) and page.number % self.reserved == 2
        return is_one and _has_text(page) and not self.says_noindex(page)

    def reserves_itself(self, page: SitePage) -> bool:
        """Return whether a page says itself that it is reserved."""
        return self.is_reserved(page) and not self._by_path(page)

    def ban_of(self, page: SitePage) -> str:
        """Return why the body of a page must not be kept, as results name it; empty: it may."""
        if self.says_noindex(page):
            return "noindex"
        return "reserved" if self.is_reserved(page) else ""

    def _by_path(self, page: SitePage) -> bool:
        has_file = self.hosts.index(page.host) % 4 != 3
        return has_file and self.is_reserved(page) and page.number // self.reserved % 2 == 0

    def price(self, page: SitePage) -> str:
        """Return what a page costs, the same on all of its host; empty: nothing.

        A crawl that does not pay misses no other page by that.
        """
        is_plain = page.kind in _PRICED and not page.children and not self.says_noindex(page)
        if not self.priced or not is_plain or page.number % self.priced:
            return ""
        return f"USD 0.0{1 + self.hosts.index(page.host) % 3}"

    def may_fetch(self, page: SitePage) -> bool:
        """Return whether the robots.txt of its host allows a page."""
        return page.kind is not ContentKind.FORBIDDEN or self.robots(page.host) is None


def _has_text(page: SitePage) -> bool:
    return page.kind not in _LEAVES and page.kind is not ContentKind.MOVED


class _Builder:
    """Grows the tree level by level, then adds the links across."""

    def __init__(self, hosts: Sequence[str], pages: int, random: Random) -> None:
        self._hosts = hosts
        self._wanted = pages
        self._random = random
        self._fanout = _fanout(pages)
        self._pages: list[SitePage] = []
        self._deck = cycle(_DECK)

    def build(self, slow_pages: int) -> list[SitePage]:
        """All pages, the front page first, each after its parent."""
        growing = deque([self._add(None, host=self._hosts[0], kind=ContentKind.PAGE)])
        is_deep = False
        while len(self._pages) < self._wanted:
            if not is_deep and len(self._pages) > _SHALLOW * self._wanted:
                growing.reverse()
                is_deep = True
            page = growing.popleft()
            for _ in range(self._room(page)):
                if len(self._pages) < self._wanted:
                    growing.extend(self._grow(page, sparse=len(growing) < 2))
        self._slow_down(slow_pages)
        for page in self._pages:
            page.asides = self._asides(page)
        return self._pages

    def _room(self, page: SitePage) -> int:
        """Return how many pages are found on this one first."""
        return self._fanout if page.parent is not None else max(self._fanout, len(self._hosts) + 1)

    def _grow(self, parent: SitePage, *, sparse: bool) -> list[SitePage]:
        """Add one child; return what can have children of its own."""
        number = len(self._pages)
        if number < len(self._hosts):
            return [self._add(parent, host=self._hosts[number], kind=ContentKind.PAGE)]
        host = parent.host if self._random.random() > _CROSSING else self._elsewhere(parent.host)
        is_special = number % _SPECIAL_EVERY == 0 and number < self._wanted - 1 and not sparse
        page = self._add(
            parent, host=host, kind=next(self._deck) if is_special else ContentKind.PAGE
        )
        if page.kind is ContentKind.MOVED:
            return [self._add(page, host=self._elsewhere(host), kind=ContentKind.PAGE)]
        return [] if page.kind in _LEAVES else [page]

    def _elsewhere(self, host: str) -> str:
        """Another host, if there is one."""
        return self._random.choice([other for other in self._hosts if other != host] or [host])

    def _add(self, parent: SitePage | None, *, host: str, kind: ContentKind) -> SitePage:
        number = len(self._pages)
        look, thing = self._random.choice(_LOOKS), self._random.choice(_THINGS)
        page = SitePage(
            number=number,
            host=host,
            path=self._path(number, kind, f"{look}-{thing}"),
            title=f"{look.capitalize()} {thing}",
            kind=kind,
            parent=parent.number if parent else None,
        )
        self._pages.append(page)
        if parent:
            parent.children.append(number)
        return page

    def _path(self, number: int, kind: ContentKind, name: str) -> str:
        """A path that no other page has: its last part holds the page's number."""
        if number < len(self._hosts):
            return "/"
        folder = _FOLDERS.get(kind) or self._random.choice(_THINGS)
        if kind is ContentKind.FILE:
            return f"/{folder}/{name}-{number}.{_FILE_TYPES[number % len(_FILE_TYPES)]}"
        if kind is ContentKind.PAGE and number % 11 == 0:
            return f"/{folder}/find?about={name}&page={number}"
        return f"/{folder}/{name}-{number}"

    def _slow_down(self, count: int) -> None:
        """Make some plain pages slow, evenly spread, the front pages never."""
        plain = [p for p in self._pages[len(self._hosts) :] if p.kind is ContentKind.PAGE]
        step = max(1, len(plain) // max(1, count))
        for page in plain[step // 2 :: step][:count]:
            page.kind = ContentKind.SLOW

    def _asides(self, page: SitePage) -> tuple[int, ...]:
        """The parent, the host's front page, two siblings and a sibling of the parent."""
        if page.parent is None or page.kind in _LEAVES or page.kind is ContentKind.MOVED:
            return ()
        parent = self._pages[page.parent]
        near = self._sample([n for n in parent.children if n != page.number], 2)
        if parent.parent is not None:
            near += self._sample(self._pages[parent.parent].children, 1)
        front = self._hosts.index(page.host)
        return tuple(dict.fromkeys(n for n in (page.parent, front, *near) if n != page.number))

    def _sample(self, numbers: Sequence[int], count: int) -> list[int]:
        return self._random.sample(numbers, min(count, len(numbers)))


def _fanout(pages: int) -> int:
    """The smallest number of children that keeps most pages within _DEPTH levels.

    One page in five is special, and most special pages have no children.
    """
    fanout = 2
    while sum((0.8 * fanout) ** level for level in range(1, _DEPTH + 1)) < _SHALLOW * pages:
        fanout += 1
    return fanout
