"""Scrapes of this process whose page has not come yet, and reports of their ends to the door."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from crawlstream.errors import CrawlstreamError
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.scrapes.scrape_names import comes_until
from rest_service.topics.recents import RecentKey

REPORTED_EVERY_S = 1.0
"""Seconds between reports of scrapes that have ended, unless others are admitted meanwhile."""
FORGOTTEN_S = 60
"""Seconds after its deadline at which the door forgets a scrape."""
_MOST_UNREPORTED = 1000
"""Latest ends that wait for one partition; the door forgets earlier ones at their deadlines."""


def _latest() -> deque[str]:
    return deque(maxlen=_MOST_UNREPORTED)


@dataclass(slots=True)
class Flight:
    """A scrape that was fed."""

    id: str
    appid: str
    partition: int
    """Partition of its site."""
    expires: int
    earliest: float
    """Time of its likely start, in epoch seconds."""
    equal: Hashable = None
    """Equal for scrapes that the same page answers; None: it is shared with no other."""
    callers: int = 1
    asked: RecentKey | None = None
    """Key by which ``max_age`` finds its page; None: it answers no other scrape."""


class Flights:
    """Flights by id, and by what other scrapes may share."""

    def __init__(self) -> None:
        self._by_id: dict[str, Flight] = {}
        self._by_equal: dict[Hashable, Flight] = {}
        self._beginning: dict[Hashable, asyncio.Future[None]] = {}
        self._ended: defaultdict[int, deque[str]] = defaultdict(_latest)
        self._ended_elsewhere = _latest()

    def __len__(self) -> int:
        return len(self._by_id)

    def get(self, id_: str) -> Flight | None:
        """Return the flight of an id; None if this process has none."""
        return self._by_id.get(id_)

    def join(self, equal: Hashable) -> Flight | None:
        """Return an equal flight, which has one more caller now; None if there is none."""
        flight = self._by_equal.get(equal) if equal is not None else None
        if flight is None or flight.expires <= time.time():
            return None
        flight.callers += 1
        return flight

    @asynccontextmanager
    async def turn(self, equal: Hashable) -> AsyncIterator[None]:
        """Begin one of equal scrapes at a time, so that the others find its flight."""
        if equal is None:
            yield
            return
        while (other := self._beginning.get(equal)) is not None:
            await asyncio.wait([other])
        begun = self._beginning[equal] = asyncio.get_running_loop().create_future()
        try:
            yield
        finally:
            del self._beginning[equal]
            begun.set_result(None)

    def add(self, flight: Flight) -> None:
        """Add a flight, and end those whose reply is overdue."""
        now = time.time()
        for one in [one for one in self._by_id.values() if one.expires + FORGOTTEN_S < now]:
            self.end(one.id)
        self._by_id[flight.id] = flight
        if flight.equal is not None:
            self._by_equal[flight.equal] = flight

    def end(self, id_: str) -> Flight | None:
        """End a flight: its page has come, or was given up. Return it; None: it is unknown."""
        flight = self._by_id.pop(id_, None)
        if flight is None:
            return None
        if self._by_equal.get(flight.equal) is flight:
            del self._by_equal[flight.equal]
        self._ended[flight.partition].append(id_)
        return flight

    def arrived(self, id_: str) -> Flight | None:
        """End the flight of a reply; report that of another process, too, which may be dead."""
        flight = self.end(id_)
        if flight is None and time.time() < comes_until(id_) + FORGOTTEN_S:
            self._ended_elsewhere.append(id_)
        return flight

    def take_ended(self, partition: int) -> Sequence[str]:
        """Return the ids to report to a partition as ended; the caller reports them."""
        return self._ended.pop(partition, ())

    async def report(self, frontiers: Frontiers) -> None:
        """Report ends, until cancelled; those that a lost call had are left to their deadlines."""
        while True:
            await asyncio.sleep(REPORTED_EVERY_S)
            elsewhere, self._ended_elsewhere = self._ended_elsewhere, _latest()
            # The partition of a scrape of another process is not known: its page may have been
            # redirected to another site.
            for partition in range(len(frontiers)) if elsewhere else list(self._ended):
                with suppress(CrawlstreamError):
                    ended = *self.take_ended(partition), *elsewhere
                    await frontiers[partition].door.leave(ended)
