"""The cluster's notes about robots.txt files, and about files of rights.

One Redis key for each origin, and for each file of another name: a redirect leads to it, or it is
one of rights (:mod:`crawling.robots.rights_files`). Its time to live is that of the note:

``fetching``            a worker fetches it right now
``rules <zlib>``        its text, at most 500 KiB of it
``open``                there is none (RFC 9309: a 4xx other than 429)
``moved <hops> <url>``  it is elsewhere: the next grant of that site buys it
``later <n>``           it could not be had for the n-th time in a row (5xx, 429, cut short)

Notes are made in a full Redis, too. Those that only repeat what a host said have a bounded share of
it: where there are too many, the oldest are forgotten and fetched again.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog
from scrapy.http import Response

from crawling.response.codings import INCOMPLETE
from crawlstream.model.url import host_of, origin_of
from crawlstream.model.web.address import MAX_URL_LENGTH, address, resolved, without_fragment
from crawlstream.tasks import together
from crawlstream_frontier.scripts import Scripts

MAX_BYTES = 500 * 1024
"""RFC 9309: at least so much has to be read; more is passed over."""
_KEPT_S = 24 * 3600
"""RFC 9309: no copy should be used for longer."""
_FETCHING_S = 30
"""Time after which a fetch counts as lost, with its worker."""
_MOVED_S = 600
MAX_HOPS = 5
_FIRST_LATER_S = 5
_LONGEST_LATER_S = 900
_COPIES = frozenset({b"rules", b"open", b"moved"})
"""Notes that may be forgotten: the host says the same again."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class RobotsNote:
    """The note of an origin in Redis, and the seconds that it is still valid."""

    raw: bytes | None
    left_s: float

    @property
    def word(self) -> bytes:
        """Its kind; empty if nothing is known."""
        return (self.raw or b"").partition(b" ")[0]

    @property
    def rest(self) -> bytes:
        """The text behind the kind."""
        return (self.raw or b"").partition(b" ")[2]

    @property
    def target(self) -> tuple[int, str]:
        """Number of redirects to a file that has moved, and its URL."""
        hops, _, url = self.rest.decode().partition(" ")
        return int(hops), url

    @property
    def refusals(self) -> int:
        """Return how often in a row the host has said 5xx or 429."""
        return int(self.rest) if self.word == b"later" else 0

    @property
    def age_s(self) -> float:
        """Seconds since the file was fetched."""
        return max(_KEPT_S - self.left_s, 0)

    @property
    def rests_s(self) -> float:
        """Seconds until the next attempt after a refusal; the key lives twice the pause."""
        return self.left_s - _pause_s(self.refusals)

    def text(self) -> bytes:
        """Return the file; empty if there is none that can be read."""
        if self.word != b"rules":
            return b""
        try:
            return zlib.decompress(self.rest)
        except zlib.error as error:
            log.warning("robots", outcome="unreadable", error=str(error))
            return b""


def rules_note(text: bytes) -> RobotsNote:
    """A robots.txt is there, and this is its text."""
    return RobotsNote(b"rules " + zlib.compress(text[:MAX_BYTES]), _KEPT_S)


EVERYTHING_FORBIDDEN = rules_note(b"User-agent: *\nDisallow: /")


def place_of(origin: str, before: RobotsNote) -> str:
    """The URL to fetch next."""
    if before.word != b"moved":
        return address(f"{origin}/robots.txt")
    return before.target[1]


def note_of(response: Response, before: RobotsNote) -> RobotsNote:
    """Return the note for an origin after a response."""
    status = response.status
    is_there = 200 <= status < 300
    if is_there and INCOMPLETE not in response.flags:
        return rules_note(response.body)
    # The missing rules of a file that breaks off might forbid the page.
    if is_there or status == 429 or status >= 500:
        return later(before)
    hops = before.target[0] if before.word == b"moved" else 0
    if 300 <= status < 400 and (target := _target(response)) and hops < MAX_HOPS:
        return RobotsNote(b"moved %d %s" % (hops + 1, target.encode()), _MOVED_S)
    return no_file()


def no_file() -> RobotsNote:
    """There is no file."""
    return RobotsNote(b"open", _KEPT_S)


def later(before: RobotsNote) -> RobotsNote:
    """A file could not be had once more."""
    refusals = before.refusals + 1
    return RobotsNote(b"later %d" % refusals, 2 * _pause_s(refusals))


def file_of(url: str) -> str:
    """Return what the cluster keeps a robots.txt under: its origin, or the URL of another file."""
    origin = origin_of(url)
    return origin if url == address(f"{origin}/robots.txt") else url


def note_instead(url: str, asked: str, before: RobotsNote) -> RobotsNote:
    """Return the note if a user's middleware returned a request for ``url`` instead of a response.

    The same again means not now; any other is as good as a redirect.
    """
    if url == asked:
        return note_of(Response(asked, status=503), before)
    return note_of(Response(asked, status=302, headers={"Location": url}), before)


def _target(response: Response) -> str | None:
    """Return where a redirect leads, on whatever site; RFC 9309 has it followed there as well."""
    location = response.headers.get(b"Location") or b""
    target = without_fragment(resolved(response.url, location) or "")
    return target if target != response.url and len(target) <= MAX_URL_LENGTH else None


def _pause_s(refusals: int) -> float:
    return float(min(_FIRST_LATER_S << min(max(refusals - 1, 0), 10), _LONGEST_LATER_S))


class RobotsBook:
    """The notes, each in the partition of the frontier that has its domain."""

    def __init__(self, place_of_host: Callable[[str], Scripts]) -> None:
        """``place_of_host`` finds it for a host."""
        self._place_of_host = place_of_host

    def _place(self, origin: str) -> Scripts:
        return self._place_of_host(host_of(origin))

    async def read(self, origins: Sequence[str]) -> list[RobotsNote]:
        """Return the notes of some origins, in one round trip per partition."""
        by_place = defaultdict[Scripts, list[str]](list)
        for origin in origins:
            by_place[self._place(origin)].append(origin)
        found = await together(_read(place, some) for place, some in by_place.items())
        notes = {origin: note for some in found for origin, note in some.items()}
        return [notes[origin] for origin in origins]

    async def claim(self, origin: str, seen: bytes | None) -> bool:
        """Say that this process fetches; False if something has changed since it was ``seen``."""
        told = origin, seen or b"", _FETCHING_S * 1000
        return await self._place(origin).run("claim", *told) == 1

    async def write(self, origin: str, note: RobotsNote) -> None:
        """Let everybody know."""
        left_ms = max(int(note.left_s * 1000), 1)
        told = origin, note.raw or b"", left_ms, int(note.word in _COPIES)
        await self._place(origin).run("note", *told)

    async def forget(self, origin: str) -> None:
        """Nothing is known after all."""
        place = self._place(origin)
        await place.redis.delete(place.keys.robots(origin))


async def _read(place: Scripts, origins: Sequence[str]) -> Mapping[str, RobotsNote]:
    async with place.redis.pipeline(transaction=False) as pipe:
        for origin in origins:
            pipe.get(place.keys.robots(origin)).pttl(place.keys.robots(origin))
        answers = await pipe.execute()
    pairs = zip(*[iter(answers)] * 2, strict=True)
    return {
        origin: RobotsNote(raw, left / 1000)
        for origin, (raw, left) in zip(origins, pairs, strict=True)
    }
