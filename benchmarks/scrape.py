"""From ``POST /v2/scrape`` to the Markdown of the page, on a cluster that has nothing else to do.

robots.txt is off and the rule wide open; every page is of a host of its own. The site answers at
once, so that nearly all of the time is the cluster's: the site's own time is subtracted.
"""

from __future__ import annotations

import asyncio
import tempfile
import time

import orjson
from latency import PAUSE_S, percentiles, serving
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, WIDE_OPEN
from lib.processes import CRAWLER, MONITOR, SERVICE, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.model.throttle_table import ThrottleTable
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_frontier

SCRAPES, WARM_UP = 150, 10
_TEXT = b"<p>The sea rises twice a day, and falls again; see <a href='/moon'>the moon</a>.</p>"
_PAGE = (
    b"<html><head><title>Tides</title></head><body><main>" + 120 * _TEXT + b"</main></body></html>"
)
"""About 10 KB."""
_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(_PAGE)


class ArticleSite:
    """Answers everything with one page."""

    port = 0

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(_HEAD + _PAGE)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


class ScrapeClient:
    """A client of REST that keeps its connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def scrape_ms(self, url: str) -> float:
        """Scrape a URL; milliseconds until its Markdown has come, without the site's own time."""
        body = orjson.dumps({"url": url, "wait": 60})
        began = time.perf_counter()
        self._writer.write(
            b"POST /v2/scrape HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
        )
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        answer = orjson.loads(await self._reader.readexactly(int(length)))
        took_ms = (time.perf_counter() - began) * 1000
        page = answer["data"] or {}
        assert "The sea rises" in page.get("markdown", ""), answer
        return took_ms - int(page["timings_ms"]["site"])


async def _ready_client(port: int, url: str) -> ScrapeClient:
    """Return a client as soon as REST knows a crawler and has scraped a page."""
    while True:
        try:
            client = ScrapeClient(*await asyncio.open_connection("127.0.0.1", port))
            await client.scrape_ms(url)
        except (OSError, AssertionError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.3)
        else:
            return client


async def _took_ms(port: int, site: ArticleSite) -> list[float]:
    client = await _ready_client(port, f"http://127.3.0.1:{site.port}/")
    took_ms = []
    for number in range(WARM_UP + SCRAPES):
        url = f"http://127.2.{number // 250}.{1 + number % 250}:{site.port}/{number}"
        took_ms.append(await client.scrape_ms(url))
        await asyncio.sleep(PAUSE_S)
    return took_ms[WARM_UP:]


async def measure(redis: Redis) -> Figures:
    """Measure a series of scrapes, one after the other."""
    frontier = Frontier(redis, KEYS)
    await create_frontier(frontier.scripts)
    await frontier.rules.copy(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    port = free_block(1)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, partitions=4) as kafka:
            env = {**environment(redis, kafka, folder), "CRAWLSTREAM_REST_PORT": str(port)}
            with (
                running(*MONITOR, folder=folder, **env),
                running(*CRAWLER, folder=folder, **env),
                running(*SERVICE, folder=folder, **env),
            ):
                async with serving(ArticleSite()) as site:
                    return percentiles(await _took_ms(port, site))


if __name__ == "__main__":
    Benchmark(
        name="scrape",
        about="From POST /v2/scrape to Markdown, above the site's time; idle cluster, robots off.",
        measure=measure,
        lines={
            "p50_ms": Line(floor=90, goal=45, unit="ms"),
            "p99_ms": Line(floor=300, goal=120, unit="ms"),
        },
        repetitions=2,
    ).main()
