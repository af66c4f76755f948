"""Requests go on where one partition is away or full: it catches up, and no seed is lost."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count, islice
from statistics import median

import pytest
from redis import Redis

from crawlstream_frontier.partitions.answers import ANSWER_S
from support.crawler.spread_web import WIDE_OPEN, spread
from support.partitions.servers.crawled import Divided
from support.waiting import wait_until

pytest_plugins = ("support.partitions.servers.fixtures",)


SEEDS = 7
"""Number of crawls fed one after the other."""


def names() -> Iterator[str]:
    """Crawls that were not fed yet."""
    return (f"alone{n}" for n in count())


def named(divided: Divided, home: int) -> str:
    """A crawl whose home is some partition."""
    names = (f"at{home}x{n}" for n in count())
    return next(name for name in names if divided.home(name) == home)


def done_of(divided: Divided, crawl: str) -> int:
    """Pages of all runs of a crawl that have ended."""
    endings = divided.witness.events(crawl, "crawl_finished")
    return sum(ending["counters"]["done"] for ending in endings)


async def seconds_until_a_page_comes(divided: Divided, crawl: str, url: str) -> float:
    """How long a seed takes from its feeding to its page."""
    began = time.monotonic()
    divided.feed(crawl, [url], maxdepth=0)
    await wait_until(lambda: divided.witness.results(crawl), timeout_s=60)
    return time.monotonic() - began


@pytest.mark.parametrize(("partition", "how"), [(0, "dies"), (1, "hangs")])
async def test_seeds_enter_while_one_partition_is_away(
    divided: Divided, partition: int, how: str
) -> None:
    """Seeds of its crawls and of its domains wait for it; stops take effect elsewhere.

    Whether its server is gone, or takes connections and answers nothing: others are not held up.
    """
    here, other, third = partition, (partition + 1) % 3, (partition + 2) % 3
    hosts = {p: divided.hosts(p) for p in range(3)}
    urls = spread(divided.site, [host for each in hosts.values() for host in each], pages=4)
    by_host = {
        host: [url for url in urls if f"//{host}:" in url] for p in hosts for host in hosts[p]
    }
    first = {p: [by_host[host][0] for host in hosts[p]] for p in range(3)}
    its_own, theirs, stopped = (named(divided, home) for home in (here, other, third))
    with divided.running():
        divided.feed("warm", [first[other][0]], maxdepth=0)
        await divided.witness.ended("warm", timeout_s=60)
        if how == "hangs":
            divided.redis[partition].signal(signal.SIGSTOP)
        else:
            divided.redis[partition].kill()
        # A seed of each crawl in every partition; those that have to wait come first.
        for crawl in (its_own, theirs):
            divided.feed(crawl, [first[p][0] for p in (here, other, third)], maxdepth=0)
        divided.feed(stopped, [first[here][1]], maxdepth=0)
        divided.witness.feed(
            {
                "appid": "faults",
                "crawlid": stopped,
                "action": "stop",
                "spiderid": "link",
                "uuid": "stop",
            }
        )
        wanted = {first[other][0], first[third][0]}
        await wait_until(
            lambda: {one["url"] for one in divided.witness.results(theirs)} == wanted, timeout_s=90
        )
        assert divided.witness.ending(theirs) is None
        assert not divided.witness.results(its_own)
        others = islice((name for name in names() if divided.home(name) == other), SEEDS)
        url = first[other][0]
        paces = [await seconds_until_a_page_comes(divided, name, url) for name in others]
        # Each Kafka partition finds out once that it is away; looks at it are every two seconds.
        assert median(paces) < ANSWER_S
        if how == "hangs":
            divided.redis[partition].signal(signal.SIGCONT)
        else:
            divided.redis[partition].start()
        for crawl in (its_own, theirs):
            ending = await divided.witness.ended(crawl, timeout_s=150)
            assert ending["counters"]["admitted"] == ending["counters"]["done"] == 3
        await divided.witness.answered("stop")
    for crawl in (its_own, theirs):
        results = Counter(one["url"] for one in divided.witness.results(crawl))
        assert results == Counter(first[p][0] for p in range(3))
    assert not divided.witness.results(stopped)
    with Redis(port=divided.redis[other].port) as redis:
        assert not list(redis.scan_iter("*}late"))


async def test_a_monitor_that_starts_while_a_partition_is_away(divided: Divided) -> None:
    """It reads without it, and does not forget that it has not read."""
    hosts = {p: divided.hosts(p, 1) for p in range(3)}
    urls = spread(divided.site, [hosts[p][0] for p in range(3)], pages=1)
    crawl = named(divided, 1)
    with divided.running():
        divided.feed("warm", urls[1:2], maxdepth=0)
        await divided.witness.ended("warm", timeout_s=60)
    divided.redis[0].kill()
    divided.feed(crawl, urls, maxdepth=0)
    with divided.running():
        await wait_until(lambda: len(divided.witness.results(crawl)) == 2, timeout_s=90)
        divided.redis[0].start()
        ending = await divided.witness.ended(crawl, timeout_s=150)
    assert ending["counters"]["done"] == 3
    assert Counter(one["url"] for one in divided.witness.results(crawl)) == Counter(urls)


async def test_seeds_enter_while_one_partition_is_full(divided: Divided) -> None:
    """Its own seeds wait until it has room again; the others, and stops, do not wait for them."""
    hosts = {p: divided.hosts(p, 1) for p in range(3)}
    urls = spread(divided.site, [hosts[p][0] for p in range(3)], pages=1)
    crawl = named(divided, 1)
    with Redis(port=divided.redis[2].port) as redis, divided.running():
        divided.feed("warm", urls[1:2], maxdepth=0)
        await divided.witness.ended("warm", timeout_s=60)
        redis.config_set("maxmemory", int(redis.info("memory")["used_memory"] * 1.2))
        divided.feed(crawl, urls[::-1], maxdepth=0)
        await wait_until(lambda: len(divided.witness.results(crawl)) == 2, timeout_s=60)
        assert divided.witness.ending(crawl) is None
        redis.config_set("maxmemory", 0)
        ending = await divided.witness.ended(crawl, timeout_s=60)
    assert ending["counters"]["done"] == 3
    assert Counter(one["url"] for one in divided.witness.results(crawl)) == Counter(urls)


@pytest.mark.parametrize("step", ["late_enrolled", "late_taken"])
async def test_a_monitor_that_dies_while_a_partition_catches_up(
    divided: Divided, step: str
) -> None:
    """The next one reads on from where the partition and its crawls are; no seed enters twice."""
    hosts = {p: divided.hosts(p, 1) for p in range(3)}
    urls = spread(divided.site, [hosts[p][0] for p in range(3)], pages=1)
    crawls = {p: named(divided, p) for p in range(3)}
    cluster = divided.cluster
    with cluster.redis_monitor(**WIDE_OPEN), cluster.crawler("link"):
        with cluster.kafka_monitor(FAILPOINT=f"{step}:kill") as dying:
            divided.feed("warm", urls[1:2], maxdepth=0)
            await divided.witness.ended("warm", timeout_s=60)
            divided.redis[2].kill()
            for crawl in crawls.values():
                divided.feed(crawl, urls[::-1], maxdepth=0)
            await wait_until(
                lambda: all(len(divided.witness.results(crawls[p])) == 2 for p in (0, 1)),
                timeout_s=90,
            )
            divided.redis[2].start()
            await wait_until(lambda: not dying.is_running(), timeout_s=90)
        # Records of a crawl that the dead one had read may be a run of its own.
        with cluster.kafka_monitor():
            await wait_until(
                lambda: all(done_of(divided, crawl) == 3 for crawl in crawls.values()),
                timeout_s=90,
            )
    for crawl in crawls.values():
        assert Counter(one["url"] for one in divided.witness.results(crawl)) == Counter(urls)
