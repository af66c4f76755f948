"""Lives of crawls over three partitions: they expire, are paused and moved, are fed by schedules.

By the processes that users run.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from crawlstream.keys import Partitions
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page, serving
from crawlstream_chaos.witness import Witness
from support.crawler.spread_web import WIDE_OPEN
from support.monitors import MonitorCluster
from support.waiting import wait_until

APP = "lives"
HOSTS = [f"127.0.6.{n}" for n in range(2, 11)]
PAGES = 15
ALL = 1 + (PAGES - 1) * len(HOSTS)
"""Pages of a crawl of the web."""
OPTIONS = {**WIDE_OPEN, "CRAWLSTREAM_SCHEDULE_MIN_S": "1", "DUPEFILTER_TIMEOUT": "0"}


@pytest.fixture(scope="module")
def cluster(cluster: MonitorCluster) -> Iterator[MonitorCluster]:
    """With both monitors and a crawler."""
    partitions = Partitions(cluster.prefix, 3)
    assert {partitions.of(host) for host in HOSTS} == {0, 1, 2}
    with ExitStack() as stack:
        stack.enter_context(cluster.kafka_monitor(**OPTIONS))
        stack.enter_context(cluster.redis_monitor(**OPTIONS))
        stack.enter_context(cluster.crawler("link", CONCURRENT_REQUESTS="16"))
        yield cluster


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """Nine hosts, whose first pages lead to slow pages everywhere."""
    with serving({}) as site:
        everywhere = [site.url(f"/{n}", host) for n in range(1, PAGES) for host in HOSTS]
        for host in HOSTS:
            site.pages[host + "/0"] = page(*everywhere)
            for n in range(1, PAGES):
                site.pages[f"{host}/{n}"] = Answer(b"<p>", after_s=0.7)
        yield site


def request(site: CrawlerSite, crawlid: str, **more: object) -> dict[str, object]:
    """A seed that leads to everything."""
    url = site.url("/0", HOSTS[0])
    return {"url": url, "appid": APP, "crawlid": crawlid, "maxdepth": 1, **more}


async def steer(witness: Witness, crawlid: str, action: str, **more: object) -> dict[str, Any]:
    """Ask something of a crawl; the reply."""
    of = {"appid": APP, "spiderid": "link", "crawlid": crawlid}
    return await witness.answered(witness.feed_request(action=action, **of, **more))


async def is_still(site: CrawlerSite) -> bool:
    """Return whether no requests reach the site any more."""
    before = len(site.visits)
    await asyncio.sleep(1.5)
    return len(site.visits) == before


@pytest.mark.usefixtures("cluster")
async def test_a_run_expires_in_all_partitions(witness: Witness, site: CrawlerSite) -> None:
    """It is reported once, with queued pages as expired; its crawl can be fed again."""
    much_later = int(time.time()) + 3_600
    witness.feed(request(site, "late", expires=much_later))
    await wait_until(lambda: len(witness.results("late")) > 5)
    assert (await steer(witness, "late", "info"))["expires"] == str(much_later)
    at = int(time.time()) + 2
    witness.feed(request(site, "late", url=site.url("/1"), expires=at))
    ending = await witness.ended("late")
    assert await is_still(site)
    counters = ending["counters"]
    assert ending["event"] == "crawl_expired"
    assert counters["expired"] > 0
    assert counters["stopped"] == 0
    assert counters["admitted"] == counters["done"] + counters["expired"] == 1 + ALL
    assert time.time() < at + 10
    assert len(witness.results("late")) == counters["done"]
    (told,) = witness.records("outbound_firehose", crawlid="late", action="expired")
    assert told.value["total_expired"] == counters["expired"]
    after = await steer(witness, "late", "info")
    assert (after["total_pending"], after.get("state")) == (0, "expired")
    witness.feed(request(site, "late", maxdepth=0))
    await wait_until(lambda: witness.events("late", "crawl_finished"))
    assert [event["run"] for event in witness.events("late", "crawl_started")] == [1, 2]
    assert len(witness.events("late", "crawl_expired")) == 1


@pytest.mark.usefixtures("cluster")
async def test_a_budget_of_bytes_counts_all_partitions(witness: Witness, site: CrawlerSite) -> None:
    """The run ends seconds after they have it together, and its ending names the budget."""
    first = site.pages[HOSTS[0] + "/0"]
    assert isinstance(first, Answer)
    budget = len(first.body) + 3 * 8
    witness.feed(request(site, "spent", max_bytes=budget))
    ending = await witness.ended("spent")
    assert (ending["event"], ending["by"]) == ("crawl_expired", "max_bytes")
    counters = ending["counters"]
    assert counters["bytes"] >= budget
    assert counters["expired"] > 0
    assert counters["admitted"] == counters["done"] + counters["expired"] == ALL
    (message,) = witness.records("outbound_firehose", crawlid="spent", action="expired")
    assert message.value["by"] == "max_bytes"


@pytest.mark.usefixtures("cluster")
async def test_a_time_that_has_passed_expires_at_once(witness: Witness, site: CrawlerSite) -> None:
    """Admits seeds of a passed time, and counts them as expired."""
    urls = [site.url("/1", host) for host in HOSTS]
    witness.feed(*(request(site, "past", url=url, expires=1) for url in urls))
    ending = await witness.ended("past")
    assert ending["event"] == "crawl_expired"
    assert ending["counters"]["admitted"] == ending["counters"]["expired"] == len(urls)
    assert not site.visits


@pytest.mark.usefixtures("cluster")
async def test_a_run_is_paused_moved_and_resumed_everywhere(
    witness: Witness, site: CrawlerSite
) -> None:
    """Its effects are seen in each partition; in the end all pages have come once."""
    witness.feed(request(site, "steered", priority=50))
    await wait_until(lambda: len(witness.results("steered")) > 5)
    assert "run" in await steer(witness, "steered", "pause")
    await wait_until(lambda: is_still(site))
    state = await steer(witness, "steered", "info")
    assert state["state"] == "paused"
    assert state["total_pending"] > 0
    assert "run" in await steer(witness, "steered", "reprioritize", priority=90)
    witness.feed(request(site, "steered", url=site.url("/1", HOSTS[5]), priority=50))

    async def has_moved() -> bool:
        shifted = await steer(witness, "steered", "info")
        return {one["high_priority"] for one in shifted["domains"].values()} <= {80, 90}

    await wait_until(has_moved)
    assert await is_still(site)
    assert "run" in await steer(witness, "steered", "resume")
    ending = await witness.ended("steered")
    assert ending["counters"]["admitted"] == ending["counters"]["done"] == 1 + ALL
    urls = Counter(result["url"] for result in witness.results("steered"))
    assert urls.pop(site.url("/1", HOSTS[5])) == 2
    assert set(urls.values()) == {1}


async def test_a_schedule_fires_again_and_again(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Each seed, in whichever partition, is fetched once a firing, which is a run of its own."""
    seeds = [site.url("/0", host) for host in HOSTS]
    crawl = {"crawlid": "news", "maxdepth": 0}
    told: dict[str, Any] = {"crawl": crawl, "seeds": seeds}
    await say(cluster, witness, "set", cron="*/2 * * * * *", **told)
    await wait_until(lambda: len(fired(witness)) > 2)
    await say(cluster, witness, "set", cron="0 0 29 2 *", **told)
    count = len(fired(witness))
    await wait_until(lambda: len(witness.events("news", "crawl_finished")) == count)
    await say(cluster, witness, "fire")
    await wait_until(lambda: len(fired(witness)) > count)
    gone = await say(cluster, witness, "remove")
    assert "error" not in gone
    times = fired(witness)
    await wait_until(lambda: len(witness.events("news", "crawl_finished")) == len(times))
    for ending in witness.events("news", "crawl_finished"):
        assert ending["counters"]["admitted"] == ending["counters"]["done"] == len(seeds)
    pages = Counter((one["occasion"]["at"], one["url"]) for one in witness.results("news"))
    assert pages == {(at, url): 1 for at in times for url in seeds}
    assert len(site.visits) == len(seeds) * len(times)


async def test_a_firing_is_skipped_or_stops_while_the_last_is_under_way(
    cluster: MonitorCluster, witness: Witness, site: CrawlerSite
) -> None:
    """Skips or stops as the coordinator says, also during a pause; a repetition changes nothing."""
    schedule = {"cron": "* * * * * *", "crawl": {"crawlid": "slow", "maxdepth": 1}}
    seeds = [site.url("/0", host) for host in HOSTS[:3]]
    await say(cluster, witness, "set", name="slow", **schedule, seeds=seeds)
    await wait_until(lambda: ("slow", "running") in skipped(witness))
    await steer(witness, "slow", "pause")
    await wait_until(lambda: ("slow", "crawl_paused") in skipped(witness))
    assert len(witness.events("slow", "crawl_started")) == 1
    await say(cluster, witness, "set", name="slow", **schedule, seeds=seeds, overlap="stop")
    await wait_until(lambda: len(witness.events("slow", "crawl_stopped")) > 1)
    await say(cluster, witness, "remove", name="slow")
    for kind in ("crawl_started", "crawl_stopped"):
        runs = [event["run"] for event in witness.events("slow", kind)]
        assert len(set(runs)) == len(runs)
    await steer(witness, "slow", "stop")
    await wait_until(
        lambda: (
            len(witness.events("slow", "crawl_stopped"))
            == len(witness.events("slow", "crawl_started"))
        )
    )


async def say(
    cluster: MonitorCluster, witness: Witness, do: str, name: str = "news", **more: object
) -> dict[str, Any]:
    """Do something to a schedule; the reply."""
    uuid = f"{name}-{do}-{len(witness.records('outbound_firehose'))}"
    told = {"uuid": uuid, "appid": APP, "schedule": name, "do": do, **more}
    cluster.feed_in_order(f"{APP}:{name}", told)
    return await witness.answered(uuid)


def fired(witness: Witness) -> set[int]:
    """The times for which the schedule has fired so far."""
    records = witness.records("events", event="schedule_fired", schedule="news")
    return {one.value["at"] for one in records}


def skipped(witness: Witness) -> list[tuple[str, str]]:
    """Schedule and reason of the firings that did not happen."""
    records = witness.records("events", event="schedule_skipped")
    return [(one.value["schedule"], one.value["reason"]) for one in records]
