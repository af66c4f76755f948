"""Redis round trips a page of one crawler that is kept busy by a synthetic web."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import web
from harness import Benchmark, Figures, Line, measured
from load import KEYS, WIDE_OPEN
from redis.asyncio import Redis

from crawlstream.bus.topics import TopicShape, ensure_topics
from crawlstream.cli import servers
from crawlstream.cli.home import find_jars
from crawlstream.cli.ports import free_block
from crawlstream.cli.probes import PROBES
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.effects import IntakeBatch, Seed
from crawlstream.model.throttle import ThrottleTable
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire.stored import encode_entry

CRAWL = CrawlKey("link", "bench", "calls")
WARM_UP_PAGES = 300
MEASURED_S = 15
SEEDS = 50


@contextmanager
def running(*argv: str, folder: str, **env: str) -> Iterator[int]:
    """A process for the length of the block: its id."""
    program = subprocess.Popen(
        argv, cwd=folder, env=os.environ | env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    with program:
        try:
            yield program.pid
        finally:
            program.kill()


@asynccontextmanager
async def own_kafka(folder: str) -> AsyncIterator[str]:
    """The address of a Kafka that has our topics."""
    server = servers.kafka(Path(folder), port=free_block(2), jars=find_jars())
    servers.format_kafka(server)
    with running(*server.argv, folder=folder):
        while not PROBES["kafka"](server.port):
            await asyncio.sleep(0.2)
        address = f"127.0.0.1:{server.port}"
        topics = Topics("bench")
        await ensure_topics([address], topics, TopicShape(partitions=1))
        yield address


async def feed(frontier: Frontier, urls: Sequence[str], crawl: CrawlKey = CRAWL) -> None:
    """Admit seeds."""
    records = [
        Seed(
            offset=offset,
            timestamp_ms=1,
            crawl=crawl,
            domain=domain_key(host_of(url)),
            priority=1,
            fingerprint=fingerprint(url),
            entry=encode_entry(Entry(url=url, origin=f"in-0-{offset}")),
            profile=Profile(seed_url=url, maxdepth=100),
        )
        for offset, url in enumerate(urls)
    ]
    await frontier.intake(
        IntakeBatch(topic_id="in", kafka_partition=0, start=0, next=len(urls), records=records)
    )


def seeds(port: int, count: int = SEEDS) -> Sequence[str]:
    """Of so many hosts; they lead everywhere."""
    return [web.url(port, host, 0) for host in range(count)]


async def pages_done(frontier: Frontier) -> int:
    """How many pages the crawl has brought; one call to Redis."""
    state = await frontier.crawl_state(CRAWL, with_domains=False)
    return state.done if state else 0


async def measure(redis: Redis) -> Figures:
    """Let one crawler work, and count what it asks of Redis."""
    frontier, port = Frontier(redis, KEYS), free_block(1)
    await frontier.copy_rules(ThrottleTable(default=WIDE_OPEN, czxid=1, mzxid=1))
    await feed(frontier, seeds(port))
    with tempfile.TemporaryDirectory(prefix="crawlstream-bench-") as folder:
        site = (sys.executable, web.__file__, str(port))
        crawler = (sys.executable, "-P", "-m", "crawling", "link")
        async with own_kafka(folder) as kafka:
            env = {
                "REDIS_HOST": "127.0.0.1",
                "REDIS_PORT": str(redis.connection_pool.connection_kwargs["port"]),
                "KAFKA_HOSTS": kafka,
                "KAFKA_TOPIC_PREFIX": "bench",
                "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
                "CRAWLSTREAM_HOME": folder,
                "ROBOTSTXT_OBEY": "false",
                "LOG_LEVEL": "WARNING",
            }
            with running(*site, folder=folder), running(*crawler, folder=folder, **env):
                while await pages_done(frontier) < WARM_UP_PAGES:
                    await asyncio.sleep(0.1)
                async with measured(redis) as cost:
                    before = await pages_done(frontier)
                    await asyncio.sleep(MEASURED_S)
                    pages = await pages_done(frontier) - before
    return {
        "calls_a_page": (cost.calls - 2) / pages,
        "pages_per_s": pages / cost.wall_s,
        "redis_us_a_page": cost.cpu_us / pages,
    }


if __name__ == "__main__":
    Benchmark(
        name="calls",
        about="Redis round trips a page of one busy crawler.",
        measure=measure,
        lines={"calls_a_page": Line(floor=1, goal=0.1, unit="")},
        repetitions=1,
    ).main()
