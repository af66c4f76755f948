"""kafka-monitor between real servers: every record takes effect exactly once, or comes back."""

from __future__ import annotations

import json
import os
import signal
from base64 import b64decode
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import psutil
import pytest
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream_chaos.processes import RunningServer, freeze
from crawlstream_chaos.witness import Witness
from crawlstream_frontier.frontier import Frontier
from support.documented import install_example_plugin
from support.hostile_records import corpus
from support.monitors import MonitorCluster, MonitorProcess
from support.spilling import filled
from support.waiting import WaitUntil

pytestmark = pytest.mark.usefixtures("monitor")

APP = "monitored"
TURNS = int(os.environ.get("INTAKE_TURNS", "3"))
"""How often the corpus of hostile records is fed; 50 is the long form, two minutes."""

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


@pytest.fixture(scope="module")
def monitor(
    cluster: MonitorCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MonitorProcess]:
    """A kafka-monitor that knows a user's kind of request too."""
    site = tmp_path_factory.mktemp("site")
    install_example_plugin(site)
    with cluster.kafka_monitor(PYTHONPATH=cluster.python_path(site)) as process:
        yield process


def seed(crawlid: str, number: int = 0, **fields: object) -> dict[str, Any]:
    """A crawl request."""
    url = f"http://site{number % 50}.example.com/{number}"
    return {"appid": APP, "crawlid": crawlid, "url": url, **fields}


async def state_of(frontier: Frontier, crawlid: str) -> CrawlState | None:
    """The ledger of a crawl."""
    return await frontier.queries.crawl_state(CrawlKey("link", APP, crawlid), with_domains=False)


async def admitted(frontier: Frontier, crawlid: str) -> int:
    """How many requests of a crawl have taken effect."""
    state = await state_of(frontier, crawlid)
    return state.admitted if state else 0


async def has_admitted(frontier: Frontier, crawlid: str, count: int) -> bool:
    """Return whether that number of requests of a crawl have taken effect, or more."""
    return await admitted(frontier, crawlid) >= count


async def test_each_bad_record_comes_back_and_the_next_good_one_is_taken(
    frontier: Frontier, witness: Witness, wait_until: WaitUntil
) -> None:
    """Impossible requests are on the rejected topic with reason and bytes; the monitor lives on."""
    witness.feed_raw(*BAD_RECORDS.values())
    witness.feed(seed("good"))
    await wait_until(lambda: has_admitted(frontier, "good", 1))
    await wait_until(lambda: len(witness.records("rejected")) >= len(BAD_RECORDS))

    rejected = {seen.value["reason"]: seen for seen in witness.records("rejected")}
    assert rejected.keys() == BAD_RECORDS.keys()
    for reason, raw in BAD_RECORDS.items():
        record = rejected[reason]
        assert b64decode(record.value["raw"]) == raw
        assert record.key == "{topic}-{partition}-{offset}".format(**record.value)
    told = {seen.value["reason"] for seen in witness.records("outbound_firehose", crawlid="odd")}
    assert told == {"bad_request", "bad_url", "bad_regex"}


async def test_hundreds_of_hostile_records_stop_nothing(
    monitor: MonitorProcess, frontier: Frontier, witness: Witness, wait_until: WaitUntil
) -> None:
    """Each comes back for its reason, the good ones between them enter, and memory stays flat."""
    reasons = {one.raw: one.reason for one in corpus() if one.raw is not None}
    memory = []
    for turn in range(TURNS):
        known, name = len(witness.records("rejected")), f"among-hostile-{turn}"
        for start in range(0, len(reasons), 100):
            witness.feed_raw(*list(reasons)[start : start + 100])
            witness.feed(seed(name, start))
        good = len(range(0, len(reasons), 100))
        await wait_until(partial(has_admitted, frontier, name, good))
        expected = known + len(reasons)
        await wait_until(partial(has_rejected, witness, expected))
        rejected = [seen.value for seen in witness.records("rejected")[known:]]
        assert {b64decode(one["raw"] or ""): one["reason"] for one in rejected} == reasons
        assert len(rejected) == len(reasons)
        memory.append(psutil.Process(monitor.pid).memory_info().rss)
    assert memory[-1] - memory[1] < 64 * 2**20, memory


def has_rejected(witness: Witness, count: int) -> bool:
    """Return whether that number of records have come back."""
    return len(witness.records("rejected")) >= count


async def test_a_stop_takes_effect_between_the_seeds_around_it(
    cluster: MonitorCluster, frontier: Frontier, wait_until: WaitUntil
) -> None:
    """Feed, stop, feed in one partition: the first run is stopped, the second one runs."""
    stop = {"uuid": "u", "appid": APP, "spiderid": "link", "crawlid": "again", "action": "stop"}
    cluster.feed_in_order("again", seed("again", 1), seed("again", 2), stop, seed("again", 3))
    cluster.feed_in_order("again", seed("last"))
    await wait_until(lambda: has_admitted(frontier, "last", 1))
    state = await state_of(frontier, "again")
    assert state is not None
    assert (state.run, state.state, state.admitted, state.queued) == (2, "running", 1, 1)


async def test_what_the_frontier_does_not_admit_comes_back(
    cluster: MonitorCluster, frontier: Frontier, witness: Witness
) -> None:
    """A seed beyond the crawl's cap is counted by the frontier and told to its client."""
    capped = [seed("capped", number, max_pages=1, uuid=f"u{number}") for number in range(2)]
    cluster.feed_in_order("capped", *capped)
    reply = await witness.answered("u1")
    assert (reply["action"], reply["reason"]) == ("rejected", "max_pages")
    assert await admitted(frontier, "capped") == 1


async def test_a_refusal_is_told_after_a_death(
    cluster: MonitorCluster,
    monitor: MonitorProcess,
    frontier: Frontier,
    witness: Witness,
    wait_until: WaitUntil,
) -> None:
    """Killed when the frontier has refused it, before it is published: the next one does that."""
    monitor.stop()
    try:
        with cluster.kafka_monitor(FAILPOINT="after_put:kill") as dying:
            cluster.feed_in_order("dying", *(seed("dying", n, max_pages=1) for n in range(3)))
            await wait_until(lambda: not dying.is_running())
        assert await admitted(frontier, "dying") == 1
        assert not witness.records("rejected", crawlid="dying")
    finally:
        monitor.start()
    await wait_until(lambda: len(told_of(witness, "dying")) == 2)
    assert {one["reason"] for one in told_of(witness, "dying")} == {"max_pages"}
    await wait_until(lambda: monitor.starts() > 1)
    assert await admitted(frontier, "dying") == 1


def told_of(witness: Witness, crawlid: str) -> list[dict[str, Any]]:
    """Records of a crawl that came back."""
    return [
        seen.value
        for seen in witness.records("rejected")
        if crawlid.encode() in b64decode(seen.value["raw"] or "")
    ]


async def test_a_stop_far_behind_waiting_seeds_makes_room(
    cluster: MonitorCluster,
    redis: Redis,
    frontier: Frontier,
    wait_until: WaitUntil,
) -> None:
    """Seeds wait for a full Redis, thousands of them; a stop behind them is not waited for."""
    cluster.feed_in_order("huge", *(seed("huge", number) for number in range(500)))
    await wait_until(lambda: has_admitted(frontier, "huge", 500))
    stop = {"uuid": "u", "appid": APP, "spiderid": "link", "crawlid": "huge", "action": "stop"}
    async with filled(redis, 0.8):
        for crawlid in ("waits", "huge"):
            cluster.feed_in_order(crawlid, *(seed(crawlid, number) for number in range(2000)))
        cluster.feed_in_order("huge", stop)
        await wait_until(partial(is_stopped, frontier, "huge"))
        assert await admitted(frontier, "waits") == 0
    await wait_until(lambda: has_admitted(frontier, "waits", 2000))
    state = await state_of(frontier, "huge")
    assert state is not None
    assert (state.run, state.stopped, state.queued) == (1, 500, 0)
    answered = cast("list[Any]", await redis.xrange(cluster.keys.actions()))
    assert sum(b"huge" in fields[b"request"] for _, fields in answered) == 1


async def is_stopped(frontier: Frontier, crawlid: str) -> bool:
    """Return whether the run of a crawl got a command to end."""
    state = await state_of(frontier, crawlid)
    return state is not None and state.state in {"stopping", "stopped"}


async def test_seeds_younger_than_a_late_stop_are_read_again(
    cluster: MonitorCluster, frontier: Frontier, wait_until: WaitUntil
) -> None:
    """A stop that lagged behind in another partition takes only what it meant."""
    cluster.let_producers_set_times()
    cluster.feed_at(0, 30, seed("late", 0))
    cluster.feed_at(0, 10, *(seed("late", number) for number in range(1, 600)))
    await wait_until(lambda: has_admitted(frontier, "late", 600))
    stop = {"uuid": "u", "appid": APP, "spiderid": "link", "crawlid": "late", "action": "stop"}
    cluster.feed_at(1, 20, stop)
    await wait_until(partial(is_run, frontier, "late", 2, 599))
    assert await is_run(frontier, "late", 2, 599)


async def is_run(frontier: Frontier, crawlid: str, run: int, count: int) -> bool:
    """Return whether a crawl is in this run, and that number of requests have taken effect."""
    state = await state_of(frontier, crawlid)
    return state is not None and (state.run, state.admitted, state.queued) == (run, count, count)


async def test_an_installed_kind_of_request_is_taken(
    cluster: MonitorCluster, redis: Redis, wait_until: WaitUntil
) -> None:
    """A user's kind, found by its entry point, gets its requests with their defaults."""
    ping = {"ping": "hello", "uuid": "u", "appid": APP}
    cluster.feed_in_order("ping", ping)
    fields = await wait_until(lambda: last_action(redis, cluster.keys, "ping"))
    assert json.loads(fields[b"request"]) == ping | {"loud": False}


async def last_action(redis: Redis, keys: FrontierKeys, name: str) -> dict[bytes, bytes]:
    """The latest action in the stream, if it has this name."""
    for _, fields in cast("list[Any]", await redis.xrevrange(keys.actions(), count=1)):
        if fields[b"name"] == name.encode():
            return dict(fields)
    return {}


async def test_a_request_can_be_fed_by_hand(
    cluster: MonitorCluster, frontier: Frontier, wait_until: WaitUntil
) -> None:
    """``kafka-monitor feed`` sends one request; text that is not JSON is refused on the spot."""
    assert cluster.feed_by_hand(json.dumps(seed("by-hand")), "-ll", "DEBUG") == 0
    assert cluster.feed_by_hand('{"url": ') == 1
    await wait_until(lambda: has_admitted(frontier, "by-hand", 1))


async def test_a_redis_that_is_away_is_waited_for(
    monitor: MonitorProcess,
    frontier: Frontier,
    witness: Witness,
    redis_server: RunningServer,
    wait_until: WaitUntil,
) -> None:
    """Requests fed while Redis is frozen take effect when it is back, without a restart."""
    redis_server.signal(signal.SIGSTOP)
    try:
        witness.feed(seed("meanwhile"))
        await wait_until(lambda: '"outcome":"waiting"' in monitor.logged())
    finally:
        redis_server.signal(signal.SIGCONT)
    await wait_until(lambda: has_admitted(frontier, "meanwhile", 1), timeout_s=90)


async def test_a_broken_frontier_is_waited_for_too(
    monitor: MonitorProcess,
    cluster: MonitorCluster,
    frontier: Frontier,
    redis: Redis,
    wait_until: WaitUntil,
) -> None:
    """Rejects one record, not all, while the frontier is broken: the fault is not theirs."""
    cluster.feed_in_order("broken", seed("sound"))
    await wait_until(lambda: has_admitted(frontier, "sound", 1))
    positions = cluster.keys.positions()
    async with redis.pipeline(transaction=True) as both:
        both.rename(positions, "aside")
        both.set(positions, "no hash")
        await both.execute()
    cluster.feed_in_order("broken", *(seed("broken", number) for number in range(10)))
    await wait_until(lambda: "the frontier cannot accept requests" in monitor.logged())
    await redis.rename("aside", positions)
    await wait_until(lambda: has_admitted(frontier, "broken", 9))
    assert await admitted(frontier, "broken") == 9


async def test_a_monitor_killed_in_the_middle_applies_each_request_once(
    monitor: MonitorProcess, frontier: Frontier, witness: Witness, wait_until: WaitUntil
) -> None:
    """5 000 requests and a kill between them are 5 000 entries: none lost, none twice."""
    total = 5000
    await wait_until(lambda: monitor.starts() > 0)
    freeze(monitor.pid)
    witness.feed(*(seed("many", number) for number in range(total)))
    os.kill(monitor.pid, signal.SIGCONT)
    await wait_until(lambda: has_admitted(frontier, "many", 1), every_s=0.005)
    monitor.kill()
    assert not await has_admitted(frontier, "many", total)
    monitor.start()
    await wait_until(lambda: has_admitted(frontier, "many", total), timeout_s=90)
    witness.feed(seed("after-many"))
    await wait_until(lambda: has_admitted(frontier, "after-many", 1))
    state = await state_of(frontier, "many")
    assert state is not None
    assert (state.admitted, state.queued, state.residual) == (total, total, 0)


async def test_monitors_share_the_topic(
    monitor: MonitorProcess,
    cluster: MonitorCluster,
    frontier: Frontier,
    witness: Witness,
    wait_until: WaitUntil,
) -> None:
    """A monitor that joins takes over a part, one that ends gives it up; each counts once."""
    with cluster.kafka_monitor():
        # A process that does not handle signals yet would die of it.
        await wait_until(lambda: monitor.starts() > 0)
        witness.feed(*(seed("shared", number) for number in range(500)))
        await wait_until(lambda: has_admitted(frontier, "shared", 1))
        assert monitor.stop() == 0
        witness.feed(*(seed("shared", number) for number in range(500, 1000)))
        await wait_until(lambda: has_admitted(frontier, "shared", 1000), timeout_s=90)
    assert await admitted(frontier, "shared") == 1000
