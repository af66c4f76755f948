"""The seeds of a firing: the schedule's own, or those of the file that it names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b

from crawlstream.errors import ConfigError, CrawlstreamError, InvalidRequest
from crawlstream.model.recurring.schedule import MOST_SEEDS, Schedule
from crawlstream.model.recurring.seed_files import place_of
from crawlstream.store.store import Store, StoreUnavailable
from crawlstream.wire.request_tables import read_seeds
from crawlstream.wire.schedules import encode_inline

MOST_BYTES = 8 << 20
"""Largest file in bytes; all of it is in memory while it is fed."""
WITHIN_S = 10.0
"""A file that has not been read by then is tried again later."""
_THREADS = 4


class NoSeeds(CrawlstreamError):
    """A firing has nothing to feed, and why."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Seeds of a firing."""

    count: int
    digest: str
    """Digest of the seeds: other seeds have another one."""
    read: Callable[[], Iterable[Mapping[str, object]]]
    """All of them, each time from the first."""


class SeedReader:
    """Reads the seeds of firings."""

    def __init__(self, stores: Sequence[str]) -> None:
        """``stores`` are the folders whose files schedules may name."""
        self._stores = stores
        self._threads = ThreadPoolExecutor(_THREADS, "seeds")

    async def feed_of(self, schedule: Schedule) -> Feed:
        """Return the feed of a schedule now; NoSeeds, or StoreUnavailable: retry."""
        if schedule.seeds_from is None:
            digest = _digest(encode_inline(schedule))
            return Feed(len(schedule.seeds), digest, lambda: schedule.seeds)
        url, loop = schedule.seeds_from, asyncio.get_running_loop()
        try:
            async with asyncio.timeout(WITHIN_S):
                return await loop.run_in_executor(self._threads, self._of_file, url)
        except TimeoutError as error:
            raise StoreUnavailable(f"{url} was not read within {WITHIN_S:.0f} s") from error
        except ConfigError as error:
            raise NoSeeds(str(error)) from error

    def _of_file(self, url: str) -> Feed:
        place = place_of(url, self._stores)
        if place is None:
            raise NoSeeds(f"{url} is not below a folder of CRAWLSTREAM_SEED_STORES")
        store, name = place
        data = Store.at(store).read(name, MOST_BYTES + 1)
        if data is None:
            raise NoSeeds(f"{url} does not exist")
        if len(data) > MOST_BYTES:
            raise NoSeeds(f"{url} has more than {MOST_BYTES} bytes")
        try:
            count = sum(1 for _ in read_seeds(name, data))
        except InvalidRequest as error:
            raise NoSeeds(f"{url}: {error}") from error
        if not 0 < count <= MOST_SEEDS:
            raise NoSeeds(f"{url} has {count} seeds, not 1 to {MOST_SEEDS}")
        return Feed(count, _digest(data), lambda: read_seeds(name, data))


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
