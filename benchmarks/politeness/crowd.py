"""Two hundred clients scrape one site while a crawl of others runs: what each of them gets.

The site's own log shows whether its rule holds, and the topic of results has each page that was
answered once. The other sites have a rule that one crawler can use up, so their rate is the
crawl's; it is measured before the clients come, and while they are there.
CRAWLSTREAM_LONG=1: a minute of each instead of ten seconds.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
from latency import serving
from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS
from lib.processes import CRAWLER, MONITOR, SERVICE, TOPICS, environment, own_kafka, running
from redis.asyncio import Redis

from crawlstream.bus.connect import Kafka
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import read_topic
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import create_frontier

CLIENTS = 200
MEASURED_S = 60 if os.environ.get("CRAWLSTREAM_LONG") == "1" else 10
CROWDED, HITS = "127.4.0.1", 20
OTHERS, OTHER_HITS = 10, 5
_KEY = "crowd-of-this-benchmark"
_BODY = b"<title>Tides</title><p>The sea rises twice a day.</p>"
_ANSWER = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(_BODY) + _BODY
)


@dataclass
class LoggingSite:
    """Answers everything with one page; remembers when each path of a host was requested."""

    port: int = 0
    visits: dict[str, list[tuple[float, str]]] = field(default_factory=lambda: defaultdict(list))

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection until the client closes it."""
        host = writer.get_extra_info("sockname")[0]
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                path = head.split(b" ", 2)[1].decode()
                self.visits[host].append((time.monotonic(), path))
                writer.write(_ANSWER)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def others(self) -> int:
        """Return the number of requests to all hosts but the crowded one."""
        return sum(len(found) for host, found in self.visits.items() if host != CROWDED)

    def most_in_a_second(self) -> int:
        """Return the most requests that the crowded host had in any second."""
        times = sorted(at for at, _ in self.visits[CROWDED])
        first = most = 0
        for last, at in enumerate(times):
            while times[first] <= at - 0.999:
                first += 1
            most = max(most, last - first + 1)
        return most


@dataclass
class Crowd:
    """Clients that scrape one new page of the site after the other."""

    port: int
    site: LoggingSite
    pages: list[str] = field(default_factory=list)
    """Ids of the pages that were answered."""
    statuses: Counter[int] = field(default_factory=Counter)

    async def scrape(self, number: int, until: float) -> None:
        """Scrape until a time; wait for as long as a refusal says."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        count = 0
        while time.monotonic() < until:
            url = f"http://{CROWDED}:{self.site.port}/{number}-{count}"
            count += 1
            status, head, answer = await _post(reader, writer, {"url": url, "wait": 10})
            self.statuses[status] += 1
            if status == 200 and answer["data"]["state"] == "done":
                self.pages.append(answer["data"]["page"]["id"])
            elif b"retry-after: " in head:
                await asyncio.sleep(int(head.partition(b"retry-after: ")[2].split(b"\r")[0]))
        writer.close()


async def _post(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, order: dict[str, object]
) -> tuple[int, bytes, Any]:
    body = orjson.dumps(order)
    writer.write(
        b"POST /v2/scrape HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"X-API-Key: %b\r\nContent-Length: %d\r\n\r\n%b" % (_KEY.encode(), len(body), body)
    )
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
    return int(head[9:12]), head, orjson.loads(await reader.readexactly(int(length)))


async def _feed(kafka: str, site: LoggingSite) -> None:
    """Feed a crawl with more pages of each other site than its rule allows in the time."""
    pages = OTHER_HITS * (3 * MEASURED_S + 30)
    hosts = [f"127.5.0.{1 + number}" for number in range(OTHERS)]
    urls = [f"http://{host}:{site.port}/{page}" for page in range(pages) for host in hosts]
    fields = {"appid": "bench", "crawlid": "others"}
    async with KafkaSink(Kafka([kafka])) as sink:
        await sink.send(
            [Out(TOPICS.incoming, orjson.dumps({"url": url, **fields})) for url in urls]
        )


async def _rate(site: LoggingSite) -> float:
    """Return the requests per second to the others, over the measured time from now on."""
    before = site.others()
    await asyncio.sleep(MEASURED_S)
    return (site.others() - before) / MEASURED_S


async def _results(kafka: str, ids: set[str]) -> Counter[str]:
    """Count the results of these ids."""
    seen = read_topic(Kafka([kafka]), TOPICS.crawled, from_beginning=True, follow=False)
    keys = [record.key.decode() async for record in seen if record.key]
    return Counter(key for key in keys if key in ids)


@asynccontextmanager
async def _cluster(redis: Redis, kafka: str, folder: str) -> AsyncIterator[int]:
    """Run a monitor, a crawler and REST; yield the port."""
    port = free_block(1)
    env = {
        **environment(redis, kafka, folder),
        "CRAWLSTREAM_REST_PORT": str(port),
        "CRAWLSTREAM_API_KEYS": f"operate/name=crowd/scrapes={2 * CLIENTS}:{_KEY}",
    }
    with ExitStack() as stack:
        for program in (MONITOR, CRAWLER, SERVICE):
            stack.enter_context(running(*program, folder=folder, **env))
        yield port


async def _until_scraped(crowd: Crowd) -> None:
    """Return when a scrape has been answered: all processes are there."""
    while not crowd.pages:
        try:
            await crowd.scrape(CLIENTS, time.monotonic() + 0.1)
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.3)


async def measure(redis: Redis) -> Figures:
    """Measure the crawl alone, then while the clients scrape."""
    frontier = Frontier(redis, KEYS)
    await create_frontier(frontier.scripts)
    rules = {CROWDED: ThrottleRule(hits=HITS, window_s=1)}
    default = ThrottleRule(hits=OTHER_HITS, window_s=1)
    table = ThrottleTable(default=default, rules=rules, czxid=1, mzxid=1)
    await frontier.rules.copy(table)
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        async with own_kafka(folder, partitions=4) as kafka, serving(LoggingSite()) as site:
            async with _cluster(redis, kafka, folder) as port:
                crowd = Crowd(port, site)
                await _until_scraped(crowd)
                await _feed(kafka, site)
                while site.others() < OTHERS:
                    await asyncio.sleep(0.1)
                alone = await _rate(site)
                until = time.monotonic() + MEASURED_S
                clients = asyncio.gather(*(crowd.scrape(n, until) for n in range(CLIENTS)))
                beside = await _rate(site)
                await clients
            found = await _results(kafka, set(crowd.pages))
    return {
        "others_kept": beside / alone,
        "most_of_rule": site.most_in_a_second() / HITS,
        "not_once": len(set(crowd.pages)) - sum(count == 1 for count in found.values()),
        "answered_s": len(crowd.pages) / MEASURED_S,
        "refused": crowd.statuses[429],
        "late": crowd.statuses[202],
    }


if __name__ == "__main__":
    Benchmark(
        name="crowd",
        about=f"{CLIENTS} clients scrape a site of {HITS} requests per second while a crawl runs.",
        measure=measure,
        lines={
            "others_kept": Line(floor=0.9, goal=0.98, unit="", more=True),
            "most_of_rule": Line(floor=1, goal=1, unit=""),
            "not_once": Line(floor=0, goal=0, unit="pages"),
        },
        repetitions=1,
    ).main()
