"""``POST /v2/scrape`` while Kafka or Redis is away: 503, in time, and nothing is kept."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count

import pytest
from redis.asyncio import Redis

from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from crawlstream.tasks import beside
from crawlstream_chaos.processes import RunningServer
from support.monitors import MonitorCluster, Servers, named_after
from support.rest import Answer, RestProcess, rest_beside_monitors
from support.session.own import own_kafka_server, own_redis_server
from support.waiting import WaitUntil

__all__ = ["own_kafka_server", "own_redis_server"]

NOTICED_S = 5
"""Seconds within which REST notices that a server is away, and may still try to feed."""
FEED_S = 3
_numbers = count(1)

TakeAway = Callable[[RunningServer], AbstractAsyncContextManager[None]]


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest,
    redis_server: RunningServer,
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> MonitorCluster:
    """Return a cluster whose Redis and Kafka may be taken away."""
    servers = Servers(redis_server, kafka_server, zookeeper_server)
    home = tmp_path_factory.mktemp("monitors")
    return MonitorCluster(servers, name=named_after(request.path), home=home)


@pytest.fixture(scope="module")
def rest(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RestProcess]:
    """Return a service with both monitors, without crawlers."""
    folder = tmp_path_factory.mktemp("rest")
    waits = {"KAFKA_FEED_TIMEOUT": str(FEED_S)}
    with rest_beside_monitors(cluster, folder, wait_s=5, **waits) as service:
        yield service


@asynccontextmanager
async def crawler_beats(redis: Redis, cluster: MonitorCluster) -> AsyncIterator[None]:
    """Let a crawler seem to run, for as long as Redis does."""
    heartbeat = Heartbeat(redis, cluster.keys, Process(kind="crawler", spider="link"))
    async with beside(heartbeat.run()):
        yield


@asynccontextmanager
async def frozen(server: RunningServer) -> AsyncIterator[None]:
    """Freeze a server: its connections are open, but nothing answers."""
    server.signal(signal.SIGSTOP)
    try:
        yield
    finally:
        server.signal(signal.SIGCONT)


@asynccontextmanager
async def killed(server: RunningServer) -> AsyncIterator[None]:
    """Kill a server, and start it again behind the block."""
    server.kill()
    try:
        yield
    finally:
        # In this thread: a server ends with the thread that has started it.
        server.start()


async def scrape(rest: RestProcess) -> Answer:
    """Scrape a URL of a host of its own."""
    return await rest.post("/v2/scrape", {"url": f"http://h{next(_numbers)}.example/", "wait": 0})


async def until_fed(rest: RestProcess, wait_until: WaitUntil) -> str:
    """Wait until a scrape is fed, and return where its page will be."""
    answers = list[Answer]()

    async def is_fed() -> bool:
        answers.append(await scrape(rest))
        return answers[-1].status == 202

    assert await wait_until(is_fed, every_s=0.2), answers[-1].body
    return answers[-1].headers["location"]


async def until_not_ready(rest: RestProcess, wait_until: WaitUntil) -> None:
    """Wait until the service reports that a server is missing."""

    async def is_noticed() -> bool:
        return (await rest.get("/health/ready")).status == 503

    await wait_until(is_noticed, timeout_s=60)


async def taken(redis: Redis) -> set[str]:
    """Return what the door has noted of each site and client."""
    found = set[str]()
    async for key in redis.scan_iter("*}scrapes*"):
        is_time = await redis.type(key) == b"string"
        found.add(f"{key!r} {await (redis.get(key) if is_time else redis.zcard(key))!r}")
    return found


async def in_progress(redis: Redis) -> int:
    """Return the number of scrapes in progress of all clients."""
    keys = [key async for key in redis.scan_iter("*}scrapes_of:*")]
    return sum([int(await redis.zcard(key)) for key in keys])


def is_unavailable(answer: Answer) -> bool:
    """Return whether an answer is the refusal that the docs promise."""
    return (answer.status, answer.error["code"]) == (503, "unavailable") and (
        int(answer.headers["retry-after"]) >= 1
    )


@pytest.mark.parametrize("take_away", [frozen, killed])
async def test_without_kafka_nothing_is_taken(
    rest: RestProcess,
    redis: Redis,
    cluster: MonitorCluster,
    *,
    kafka_server: RunningServer,
    take_away: TakeAway,
    wait_until: WaitUntil,
) -> None:
    """Without Kafka, returns a scrape that cannot be fed, and soon refuses further ones."""
    async with crawler_beats(redis, cluster):
        await until_fed(rest, wait_until)
        async with take_away(kafka_server):
            begun = time.monotonic()
            assert is_unavailable(await scrape(rest))
            assert time.monotonic() - begun < FEED_S + 2
            await until_not_ready(rest, wait_until)
            before = await taken(redis)
            assert before
            begun = time.monotonic()
            refused = [await scrape(rest) for _ in range(5)]
            assert all(map(is_unavailable, refused))
            assert time.monotonic() - begun < FEED_S
            after = await taken(redis)
            assert not after - before
        await until_fed(rest, wait_until)


async def test_a_scrape_that_could_not_be_fed_is_given_back(
    rest: RestProcess,
    redis: Redis,
    cluster: MonitorCluster,
    *,
    kafka_server: RunningServer,
    wait_until: WaitUntil,
) -> None:
    """The client's number of scrapes in progress does not grow."""
    async with crawler_beats(redis, cluster):
        await until_fed(rest, wait_until)
        before = await in_progress(redis)
        assert before
        async with frozen(kafka_server):
            answers = await asyncio.gather(*(scrape(rest) for _ in range(3)))
            assert all(map(is_unavailable, answers))

            async def is_given_back() -> bool:
                return await in_progress(redis) <= before

            assert await wait_until(is_given_back, timeout_s=30)


@pytest.mark.parametrize("take_away", [frozen, killed])
async def test_without_redis_nothing_is_fed(
    rest: RestProcess,
    redis: Redis,
    cluster: MonitorCluster,
    *,
    redis_server: RunningServer,
    take_away: TakeAway,
    wait_until: WaitUntil,
) -> None:
    """Answer 503 without the door; a scrape that was fed before is still answered with 202."""
    async with crawler_beats(redis, cluster):
        path = await until_fed(rest, wait_until)
        records = len(cluster.read_all(cluster.topics.incoming))
        async with take_away(redis_server):
            begun = time.monotonic()
            answers = [await scrape(rest) for _ in range(3)]
            assert all(map(is_unavailable, answers)), answers
            assert time.monotonic() - begun < 3 * 5
            assert (await rest.get(path)).status == 202
            assert len(cluster.read_all(cluster.topics.incoming)) == records
        await until_fed(rest, wait_until)
