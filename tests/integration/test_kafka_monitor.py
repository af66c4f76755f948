"""kafka-monitor between real servers: every record takes effect exactly once, or comes back."""

from __future__ import annotations

import json
import signal
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from e2e.witness import Witness
from support.monitors import MonitorCluster, Servers
from support.servers import RunningServer
from support.waiting import WaitUntil

APP = "monitored"

BAD_RECORDS: dict[str, bytes] = {
    "not_json": b'{"url": ',
    "not_utf8": b'{"url": "http://a.example.com/\xff"}',
    "not_an_object": b'["http://a.example.com/"]',
    "bad_number": b'{"url": "http://a.example.com/", "attrs": {"n": NaN}}',
    "too_deep": b"[" * 100_000,
    "too_large": b" " * (5 * 1024 * 1024),
    "bad_request": json.dumps({"appid": APP, "crawlid": "odd", "url": "a.com", "no": 1}).encode(),
    "bad_url": json.dumps({"appid": APP, "crawlid": "odd", "url": "file:///etc/passwd"}).encode(),
    "bad_regex": json.dumps(
        {"appid": APP, "crawlid": "odd", "url": "a.com", "allow_regex": ["("]}
    ).encode(),
}


@pytest.fixture
def running_servers(
    redis_server: RunningServer, kafka_server: RunningServer, zookeeper_server: RunningServer
) -> Servers:
    """All three."""
    return Servers(redis_server, kafka_server, zookeeper_server)


@pytest.fixture
async def cluster(
    redis: Redis, running_servers: Servers, fresh_name: str, tmp_path: Path
) -> MonitorCluster:
    """The servers under a prefix of their own, with the topics made."""
    cluster = MonitorCluster(redis, running_servers, prefix=fresh_name, home=tmp_path)
    await cluster.make_topics()
    return cluster


@pytest.fixture
def witness(cluster: MonitorCluster) -> Iterator[Witness]:
    """A client of the cluster."""
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    yield witness
    witness.close()


def seed(crawlid: str, number: int = 0, **fields: object) -> dict[str, Any]:
    """A crawl request."""
    url = f"http://site{number % 50}.example.com/{number}"
    return {"appid": APP, "crawlid": crawlid, "url": url, **fields}


async def state_of(cluster: MonitorCluster, crawlid: str) -> CrawlState | None:
    """The ledger of a crawl."""
    return await cluster.frontier.crawl_state(CrawlKey("link", APP, crawlid), with_domains=False)


async def admitted(cluster: MonitorCluster, crawlid: str) -> int:
    """How many requests of a crawl have taken effect."""
    state = await state_of(cluster, crawlid)
    return state.admitted if state else 0


async def has_admitted(cluster: MonitorCluster, crawlid: str, count: int) -> bool:
    """Whether so many requests of a crawl have taken effect, or more."""
    return await admitted(cluster, crawlid) >= count


async def test_each_bad_record_comes_back_and_the_next_good_one_is_taken(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """What can never be is on the rejected topic with reason and bytes; the monitor lives on."""
    witness.feed_raw(*BAD_RECORDS.values())
    witness.feed(seed("good"))
    with cluster.kafka_monitor():
        await wait_until(lambda: has_admitted(cluster, "good", 1))
        await wait_until(lambda: len(witness.records("rejected")) >= len(BAD_RECORDS))

    rejected = {seen.value["reason"]: seen for seen in witness.records("rejected")}
    assert rejected.keys() == BAD_RECORDS.keys()
    for reason, raw in BAD_RECORDS.items():
        record = rejected[reason]
        assert b64decode(record.value["raw"]) == raw
        assert record.key == "{topic}-{partition}-{offset}".format(**record.value)
    told = {seen.value["reason"] for seen in witness.records("outbound_firehose", crawlid="odd")}
    assert told == {"bad_request", "bad_url", "bad_regex"}


async def test_a_monitor_killed_in_the_middle_applies_each_request_once(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """5 000 requests and a kill between them are 5 000 entries: none lost, none twice."""
    total = 5000
    witness.feed(*(seed("many", number) for number in range(total)))
    with cluster.kafka_monitor() as monitor:
        await wait_until(lambda: has_admitted(cluster, "many", total // 4), every_s=0.005)
        monitor.kill()
        assert not await has_admitted(cluster, "many", total)
        monitor.start()
        await wait_until(lambda: has_admitted(cluster, "many", total))
        witness.feed(seed("last"))
        await wait_until(lambda: has_admitted(cluster, "last", 1))
    state = await state_of(cluster, "many")
    assert state is not None
    assert (state.admitted, state.queued, state.residual) == (total, total, 0)


async def test_two_monitors_share_the_topic(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """A monitor that joins takes over a part, one that ends gives it up; each counts once."""
    with cluster.kafka_monitor() as first:
        witness.feed(*(seed("shared", number) for number in range(500)))
        await wait_until(lambda: has_admitted(cluster, "shared", 1))
        with cluster.kafka_monitor():
            witness.feed(*(seed("shared", number) for number in range(500, 1000)))
            assert first.stop() == 0
            witness.feed(*(seed("shared", number) for number in range(1000, 1500)))
            await wait_until(lambda: has_admitted(cluster, "shared", 1500), timeout_s=20)
    assert await admitted(cluster, "shared") == 1500


async def test_a_stop_takes_effect_between_the_seeds_around_it(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """Feed, stop, feed in one partition: the first run is stopped, the second one runs."""
    stop = {"uuid": "u", "appid": APP, "spiderid": "link", "crawlid": "again", "action": "stop"}
    cluster.feed_in_order("again", seed("again", 1), seed("again", 2), stop, seed("again", 3))
    with cluster.kafka_monitor():
        cluster.feed_in_order("again", seed("last"))
        await wait_until(lambda: has_admitted(cluster, "last", 1))
    state = await state_of(cluster, "again")
    assert state is not None
    assert (state.run, state.state, state.admitted, state.queued) == (2, "running", 1, 1)


async def test_a_redis_that_is_away_is_waited_for(
    cluster: MonitorCluster, witness: Witness, redis_server: RunningServer, wait_until: WaitUntil
) -> None:
    """Requests fed while Redis is frozen take effect when it is back, without a restart."""
    with cluster.kafka_monitor(REDIS_SOCKET_TIMEOUT="1") as monitor:
        witness.feed(seed("before"))
        await wait_until(lambda: has_admitted(cluster, "before", 1))
        redis_server.signal(signal.SIGSTOP)
        try:
            witness.feed(seed("meanwhile"))
            await wait_until(lambda: '"outcome":"waiting"' in monitor.logged())
        finally:
            redis_server.signal(signal.SIGCONT)
        await wait_until(lambda: has_admitted(cluster, "meanwhile", 1), timeout_s=15)
        assert monitor.stop() == 0


async def test_what_the_frontier_does_not_admit_comes_back(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """A seed beyond the crawl's cap is counted by the frontier and told to its client."""
    with cluster.kafka_monitor():
        capped = [seed("capped", number, max_pages=1, uuid=f"u{number}") for number in range(2)]
        cluster.feed_in_order("capped", *capped)
        reply = await witness.answered("u1")
    assert (reply["action"], reply["reason"]) == ("rejected", "max_pages")
    assert await admitted(cluster, "capped") == 1


async def test_a_request_can_be_fed_by_hand(cluster: MonitorCluster, wait_until: WaitUntil) -> None:
    """``kafka-monitor feed`` sends one request; what is no JSON is refused on the spot."""
    assert cluster.feed_by_hand(json.dumps(seed("by-hand")), "-ll", "DEBUG") == 0
    assert cluster.feed_by_hand('{"url": ') == 1
    with cluster.kafka_monitor():
        await wait_until(lambda: has_admitted(cluster, "by-hand", 1))


PLUGIN = '''
from crawlstream.model.effects import Command
from crawlstream.wire import jsontext
from crawlstream.wire.schemas import Schema
from kafka_monitor.plugins.door import Handler


class PingHandler(Handler):
    """Requests with a ping."""

    name, rank = "ping", 150
    schema = Schema({
        "type": "object", "required": ["ping"], "additionalProperties": False,
        "properties": {"ping": {"type": "string"}, "loud": {"type": "boolean", "default": True}},
    })

    async def handle(self, request, record):
        """Pass it on."""
        return Command(offset=record.offset, timestamp_ms=record.timestamp_ms, name="ping",
                       request=jsontext.dumps(request, sort_keys=True))
'''


async def test_an_installed_kind_of_request_is_taken(
    cluster: MonitorCluster, witness: Witness, redis: Redis, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """A user's kind, found by its entry point, gets its requests with their defaults."""
    site = tmp_path / "site"
    info = site / "pinger-1.dist-info"
    info.mkdir(parents=True)
    (site / "pinger.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pinger\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[crawlstream.requests]\nping = pinger:PingHandler\n")
    with cluster.kafka_monitor(PYTHONPATH=cluster.python_path(site)):
        witness.feed({"ping": "hello"})
        ((_, fields),) = await wait_until(lambda: redis.xrange(FrontierKeys().actions()))
    assert fields[b"name"] == b"ping"
    assert json.loads(fields[b"request"]) == {"ping": "hello", "loud": True}
