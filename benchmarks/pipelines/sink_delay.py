"""How long a result that Kafka has acknowledged takes to be seen in PostgreSQL."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from collections.abc import Sequence

import psycopg
from lib.harness import Benchmark, Figures, Line
from lib.pages import records
from lib.processes import TOPICS
from lib.sinks import Running, carrying
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream_chaos.stores.postgres import postgres

WARM_UP, PAGES, PAUSE_S = 20, 600, 0.05
_TELL = """
create function tell() returns trigger language plpgsql as
    $$ begin perform pg_notify('stored', new.id); return null; end $$;
create trigger tell after insert on pages for each row execute function tell();
"""


class Listener(threading.Thread):
    """Notes when each page was committed: PostgreSQL notifies it then, and not before."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._connection = psycopg.connect(url, autocommit=True)
        self._connection.execute(_TELL)
        self._connection.execute("listen stored")
        self.seen: dict[str, float] = {}

    def run(self) -> None:
        """Listen until all pages are there."""
        with self._connection:
            for notice in self._connection.notifies():
                self.seen[notice.payload] = time.monotonic()
                if len(self.seen) == PAGES:
                    return


async def fed(one: Running, pages: Sequence[Out]) -> dict[str, float]:
    """Feed pages one by one; when each was acknowledged."""
    acknowledged = {}
    async with KafkaSink(Kafka([one.kafka])) as sink:
        for page in pages:
            await sink.send([page])
            acknowledged[(page.key or b"").decode()] = time.monotonic()
            await asyncio.sleep(PAUSE_S)
    return acknowledged


async def measure(redis: Redis) -> Figures:
    """Measure one page at a time, so that none waits for others."""
    pages = [Out(TOPICS.crawled, each.value or b"", b"%032x" % each.offset) for each in records()]
    with postgres() as server:
        url = server.make_database("bench")
        async with carrying(redis, f'kind = "sql", url = "{url}"') as one:
            await one.feed(pages[:WARM_UP])
            await one.until(WARM_UP)
            listener = Listener(url)
            listener.start()
            acknowledged = await fed(one, pages[WARM_UP : WARM_UP + PAGES])
            await one.until(WARM_UP + PAGES)
            await asyncio.to_thread(listener.join)
    took_s = [listener.seen[name] - at for name, at in acknowledged.items()]
    cuts = statistics.quantiles(took_s, n=100)
    return {"p50_s": cuts[49], "p99_s": cuts[98], "most_s": max(took_s)}


if __name__ == "__main__":
    Benchmark(
        name="sink-delay",
        about="From a result's acknowledgement to its row in PostgreSQL, 20 a second.",
        measure=measure,
        lines={
            "p50_s": Line(floor=2, goal=0.5, unit="s"),
            "p99_s": Line(floor=5, goal=1.5, unit="s"),
        },
        repetitions=2,
    ).main()
