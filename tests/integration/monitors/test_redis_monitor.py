"""redis-monitor between real servers: every question answered, every crawl ended once."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.error import URLError

import pytest
from kazoo.client import KazooClient
from redis.asyncio import Redis
from redis.exceptions import ResponseError

from crawlstream.bus.connect import Kafka
from crawlstream.bus.tail import end_offsets
from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import Outcome, Settle
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, living
from crawlstream.stats.tally import Tally
from crawlstream_chaos.witness import Witness
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.egress.purse import Purse
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.streams import GROUP
from redis_monitor.actions.counter_history import CounterHistory
from support.documented import install_example_plugin
from support.monitors import MonitorCluster, MonitorProcess
from support.waiting import WaitUntil

pytestmark = pytest.mark.usefixtures("monitor")

APP = "monitored"
QUESTIONS = int(os.environ.get("MONITOR_QUESTIONS", "40"))
KILLS = int(os.environ.get("MONITOR_KILLS", "2"))
"""The long form of the test of killed monitors: 1000 and 25, about two minutes."""

WIDE_OPEN = {"QUEUE_HITS": "100000", "QUEUE_WINDOW": "1", "QUEUE_MODERATED": "false"}
NODE = "/scrapy-cluster/crawler/"
GRACE_S = "0.5"
"""Setting of all redis-monitors: one with another grace would not begin."""

ANSWERED = {"uuid", "appid", "server_time"}
COUNTED = {"total", "plugins", "nodes"}
STATS: dict[str, set[str]] = {
    "kafka-monitor": COUNTED,
    "redis-monitor": COUNTED,
    "rest": set(),
    "spider": {"spiders"},
    "machine": {"machines"},
    "queue": {"queues"},
    "crawler": {"spiders", "machines", "queue"},
    "all": {"kafka-monitor", "redis-monitor", "crawler", "rest"},
}
"""Keys of each kind of stats reply, besides those of every reply."""


@pytest.fixture(scope="module")
def health_port() -> int:
    """Port of the redis-monitor's health."""
    return free_block(1)


@pytest.fixture(scope="module")
def monitor(
    cluster: MonitorCluster, health_port: int, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MonitorProcess]:
    """A redis-monitor that knows a user's action too, and a kafka-monitor before it."""
    site = tmp_path_factory.mktemp("site")
    install_example_plugin(site)
    options = {
        "PYTHONPATH": cluster.python_path(site),
        "CRAWLSTREAM_METRICS_PORT": str(health_port),
        "CRAWLSTREAM_FINISH_GRACE": GRACE_S,
        **WIDE_OPEN,
    }
    own = {"KAFKA_APPID_TOPICS": "true"}
    with cluster.kafka_monitor(**own), cluster.redis_monitor(**own, **options) as process:
        yield process


def seed(crawlid: str, number: int = 0, **fields: object) -> dict[str, Any]:
    """A crawl request."""
    url = f"http://site{number % 50}.example.com/{number}"
    return {"appid": APP, "crawlid": crawlid, "url": url, **fields}


def action(name: str, **fields: object) -> dict[str, Any]:
    """An action request without its uuid."""
    return {"appid": APP, "spiderid": "link", "action": name, **fields}


async def is_blocked(frontier: Frontier, domain: str) -> bool:
    """Return whether a domain is on the blacklist that Redis applies."""
    rules = await frontier.rules.table()
    return rules is not None and domain in rules.blacklist


async def has_answered_all(redis: Redis, keys: FrontierKeys) -> bool:
    """Return whether no action is left in the stream."""
    return await redis.xlen(keys.actions()) == 0


class Worker:
    """A worker that succeeds with each page at once."""

    def __init__(self, frontier: Frontier) -> None:
        self._session = frontier.session("worker", "link")
        self._settles: list[Settle] = []
        self.finished = 0

    async def has_finished(self, count: int) -> bool:
        """Settle all leases, lease more; return whether that number of pages are done."""
        settled = self._settles
        exchanged = await self._session.exchange(settles=settled, want=200)
        self.finished += len(settled)
        self._settles = [
            Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx")
            for lease in exchanged.leases
        ]
        return self.finished >= count


async def test_a_seed_is_accepted_and_told_by_info(
    cluster: MonitorCluster, witness: Witness
) -> None:
    """A seed with a uuid is answered; info counts queued pages, in the types that clients know."""
    later = int(time.time()) + 600
    cluster.feed_in_order("x", seed("known", expires=later, spiderid="odd", uuid="seed"))
    accepted = await witness.answered("seed")
    assert accepted == accepted | {"action": "accepted", "crawlid": "known", "run": 1}

    asked = {"appid": APP, "spiderid": "odd", "action": "info"}
    crawl = await witness.answered(witness.feed_request(**asked, crawlid="known"))
    assert crawl.keys() >= ANSWERED | {"crawlid", "spiderid", "total_pending", "total_domains"}
    assert "action" not in crawl
    assert crawl["expires"] == str(later)
    domain = {"total": 1, "high_priority": 1, "low_priority": 1}
    assert crawl["domains"] == {"example.com": domain}

    app = await witness.answered(witness.feed_request(**asked))
    totals = {"total_pending", "total_domains", "total_crawlids"}
    assert app.keys() == ANSWERED | {"spiderid", "crawlids"} | totals
    assert app["crawlids"]["known"] == {
        "total": 1,
        "distinct_domains": 1,
        "domains": {"example.com": domain},
        "expires": later,
    }


async def test_all_kinds_of_stats_are_answered(
    cluster: MonitorCluster, witness: Witness, redis: Redis, wait_until: WaitUntil
) -> None:
    """Counts by process, spider, machine and queue, in the shapes that clients know."""
    await Heartbeat(redis, cluster.keys, Process(kind="crawler", spider="link", host="h")).beat()
    tally = Tally(redis, cluster.keys)
    tally.count_response("link", "h", 200)
    await tally.flush()
    witness.feed(seed("waiting", spiderid="nobody"))
    await witness.answered(witness.feed_request(**action("info")))

    async def both_are_counted() -> bool:
        told = str(await CounterHistory(redis, cluster.keys).read("kafka-monitor"))
        return "ScraperHandler" in told and "ActionHandler" in told

    await wait_until(both_are_counted)

    asked = {kind: witness.feed_request(appid=APP, stats=kind) for kind in STATS}
    told = {kind: await witness.answered(uuid) for kind, uuid in asked.items()}

    for kind, keys in STATS.items():
        assert told[kind].keys() >= ANSWERED | {"stats"} | keys, kind
    spiders = told["crawler"]["spiders"]
    assert spiders["link"]["200"] == dict.fromkeys(spiders["link"]["200"], 1)
    assert spiders["link"]["count"] == spiders["total_spider_count"] == 1
    assert told["machine"]["machines"]["h"]["200"]["lifetime"] == 1
    assert told["queue"]["queues"]["queue_nobody"] == {
        "spider_backlog": 1,
        "num_domains": 1,
        "domains": [{"domain": "example.com", "backlog": 1}],
    }
    assert "ScraperHandler" in told["kafka-monitor"]["plugins"]
    assert "InfoMonitor" in told["redis-monitor"]["plugins"]


async def test_every_stop_is_answered_under_its_own_uuid(
    cluster: MonitorCluster, witness: Witness
) -> None:
    """Two stops of one crawl, one of an unknown crawl, one of none: four answers, one purge."""
    stop = {**action("stop", crawlid="halted"), "spiderid": "nobody"}
    stops = [{**stop, "uuid": "first"}, {**stop, "uuid": "second"}]
    cluster.feed_in_order("halted", seed("halted", spiderid="nobody"), *stops)
    witness.feed({**action("stop", crawlid="unheard-of"), "uuid": "unknown"})
    witness.feed({**action("stop"), "uuid": "nothing"})

    uuids = ("first", "second", "unknown", "nothing")
    told = {uuid: await witness.answered(uuid) for uuid in uuids}

    for reply in told.values():
        assert reply.keys() >= ANSWERED | {"action", "spiderid", "crawlid", "total_purged"}
    assert {uuid: reply["total_purged"] for uuid, reply in told.items()} == {
        "first": 1,
        "second": 0,
        "unknown": 0,
        "nothing": 0,
    }
    assert [uuid for uuid in uuids if "error" in told[uuid]] == ["second", "unknown", "nothing"]
    assert (await witness.ended("halted"))["event"] == "crawl_stopped"


async def test_a_crawl_is_paused_moved_and_resumed(
    cluster: MonitorCluster, frontier: Frontier, witness: Witness, wait_until: WaitUntil
) -> None:
    """Answers each action by its uuid in record order; an error if no run is open."""
    steered = ("pause", "reprioritize", "resume", "pause")
    seeds = [seed("steered", number) for number in range(3)]
    asked = [
        action(name, crawlid="steered", uuid=f"{name}{place}", priority=90 if place == 1 else None)
        for place, name in enumerate(steered)
    ]
    cluster.feed_in_order("steered", *seeds, *asked)
    told = [await witness.answered(request["uuid"]) for request in asked]
    for name, reply in zip(steered, told, strict=True):
        assert reply.keys() >= ANSWERED | {"action", "spiderid", "crawlid"}
        assert (reply["action"], reply["run"], "error" in reply) == (name, 1, False)
    assert told[1]["priority"] == 90

    info = await witness.answered(witness.feed_request(**action("info", crawlid="steered")))
    assert (info["state"], info["held_back"]) == ("paused", {"paused": 3})
    assert info["domains"]["example.com"]["high_priority"] == 90

    wrong = [
        {"crawlid": "unheard-of"},
        {"crawlid": "steered", "spiderid": "lnik"},
        {},
        {"crawlid": "steered", "action": "reprioritize"},
    ]
    uuids = [witness.feed_request(**{**action("pause"), **fields}) for fields in wrong]
    assert [(await witness.answered(uuid))["error"] for uuid in uuids] == [
        "no such crawl is under way",
        "no such crawl is under way; spiders with a crawl of this id: link (paused)",
        "pause needs a crawlid",
        "reprioritize needs a priority",
    ]

    witness.feed_request(**action("resume", crawlid="steered"))
    worker = Worker(frontier)
    await wait_until(lambda: worker.has_finished(3))
    ended = await wait_until(lambda: witness.ending("steered"))
    assert ended["counters"]["done"] == 3


async def test_a_thousand_seeds_fed_one_by_one_are_one_run(
    frontier: Frontier, witness: Witness, wait_until: WaitUntil
) -> None:
    """A single run, with one beginning and one ending, whose counters add up."""
    total = 1000
    witness.feed(*(seed("thousand", number) for number in range(total)))
    worker = Worker(frontier)
    await wait_until(lambda: worker.has_finished(total), timeout_s=90)
    ended = await wait_until(lambda: witness.ending("thousand"))
    assert (ended["event"], ended["run"]) == ("crawl_finished", 1)
    assert ended["counters"]["admitted"] == ended["counters"]["done"] == total
    assert ended["counters"]["done_by_status"] == {"2xx": total}
    assert len(witness.events("thousand")) == 2


async def test_a_crawl_past_its_time_is_expired(witness: Witness, wait_until: WaitUntil) -> None:
    """The event, and the message that the predecessor's clients wait for."""
    witness.feed(seed("late", expires=1))
    ended = await witness.ended("late")
    assert ended["event"] == "crawl_expired"
    assert ended["counters"]["expired"] == 1
    (seen,) = await wait_until(lambda: witness.records("outbound_firehose", crawlid="late"))
    ids = {"action", "appid", "crawlid", "spiderid"}
    assert seen.value.keys() == ids | {"server_time", "total_expired"}
    assert (seen.value["action"], seen.value["total_expired"]) == ("expired", 1)


async def test_rules_are_edited_copied_and_fenced(
    cluster: MonitorCluster,
    monitor: MonitorProcess,
    frontier: Frontier,
    witness: Witness,
    wait_until: WaitUntil,
) -> None:
    """Edits reach Redis; a bad edit is answered; a node created again does not rule by itself."""
    edit = {"appid": APP, "domain": "edited.com", "action": "domain-update"}
    done = await witness.answered(witness.feed_request(**edit, hits=60, window=30, scale=0.5))
    assert done.keys() == ANSWERED | {"action", "domain"}
    blocked = {**edit, "domain": "blocked.com", "action": "blacklist-update"}
    await witness.answered(witness.feed_request(**blocked))
    await wait_until(lambda: is_blocked(frontier, "blocked.com"))
    rules = await frontier.rules.table()
    assert rules is not None
    assert rules.default.hits == int(WIDE_OPEN["QUEUE_HITS"])
    assert rules.rule_for("edited.com").effective_hits == 30

    refused = await witness.answered(witness.feed_request(**edit, hits=0, window=30))
    assert "hits" in refused["error"]

    zookeeper = KazooClient(cluster.zookeeper_hosts)
    zookeeper.start()
    zookeeper.delete(NODE + cluster.prefix)
    zookeeper.create(NODE + cluster.prefix, b"domains: {}\n")
    zookeeper.stop()
    zookeeper.close()
    await wait_until(lambda: "crawlstream throttle adopt" in monitor.logged())
    assert await frontier.rules.table() == rules


async def test_replies_go_to_an_applications_own_topic_too(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """Creates ``<prefix>.outbound_<appid>`` with KAFKA_APPID_TOPICS, like other topics."""
    reply = await witness.answered(witness.feed_request(**action("info", crawlid="nothing")))
    topic = cluster.topics.for_app(cluster.topics.outbound, APP)
    assert topic is not None
    own = await wait_until(lambda: cluster.read_all(topic))
    assert reply in [json.loads(value) for value in own]
    assert len(await end_offsets(Kafka([cluster.kafka_hosts]), topic)) == 2


async def test_refusals_go_to_an_applications_own_topic_too(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """Whichever monitor answers, though nothing of the application has taken effect before."""
    app = "refused"
    bad = {**seed("c"), "appid": app, "url": "ftp://a.example/"}
    refused = await witness.answered(witness.feed_request(**bad))
    topic = cluster.topics.for_app(cluster.topics.outbound, app)
    assert topic is not None
    own = await wait_until(lambda: cluster.read_all(topic))
    assert [json.loads(value) for value in own] == [refused]
    accepted = await witness.answered(witness.feed_request(**seed("c") | {"appid": app}))
    await wait_until(lambda: len(cluster.read_all(topic)) > 1)
    both: list[Any] = [json.loads(value) for value in cluster.read_all(topic)]
    assert sorted(both, key=lambda reply: str(reply["action"])) == [accepted, refused]
    # A request whose name no topic can have is answered on the firehose all the same.
    await witness.answered(witness.feed_request(**{**bad, "appid": "no/topic"}))


async def test_an_installed_action_is_answered_and_a_failing_or_unknown_one_too(
    cluster: MonitorCluster, witness: Witness, redis: Redis, wait_until: WaitUntil
) -> None:
    """A user's action, found by its entry point; after three failures the answer is an error."""
    fine = {"ping": "hello", "uuid": "fine", "appid": APP, "loud": True}
    broken = {"ping": 1, "uuid": "broken", "appid": APP, "loud": True}
    nobodys = action("info", uuid="nobodys")
    for name, request in (("ping", fine), ("ping", broken), ("unheard-of", nobodys)):
        record: dict[Any, Any] = {"name": name, "request": json.dumps(request)}
        await redis.xadd(cluster.keys.actions(), record)
    assert (await witness.answered("fine"))["pong"] == "HELLO"
    failed = await witness.answered("broken")
    assert failed["reason"] == "action_failed"
    assert "AttributeError" in failed["errors"][0]
    assert "unheard-of" in (await witness.answered("nobodys"))["error"]
    await wait_until(lambda: has_answered_all(redis, cluster.keys))


def page(port: int, path: str) -> str:
    """Answer of a monitor to HTTP, nothing before it is up."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            text: str = answer.read().decode()
    except URLError:
        return ""
    return text


async def test_a_monitor_tells_how_it_is(
    health_port: int, frontier: Frontier, wait_until: WaitUntil
) -> None:
    """/health answers while the tasks go on; /metrics has the figures of cluster and purses."""
    fine = {"status": "ok", "waiting_for": "", "failing": {}}

    async def is_fine() -> bool:
        health = await asyncio.to_thread(page, health_port, "/health")
        return bool(health) and json.loads(health) == fine

    await wait_until(is_fine)
    await frontier.purses.put(Purse(name="news", currency="USD", day=1))

    async def figures() -> str:
        metrics = await asyncio.to_thread(page, health_port, "/metrics")
        are_all = 'crawlstream_processes{kind="redis-monitor"' in metrics
        return metrics if are_all and "crawlstream_purse_spent{" in metrics else ""

    metrics = (await wait_until(figures)).splitlines()
    assert "crawlstream_ledger_residual 0.0" in metrics
    assert "crawlstream_unbalanced_endings_total 0.0" in metrics
    assert 'crawlstream_purse_spent{currency="USD",purse="news"} 0.0' in metrics
    for name in (
        "crawls ",
        'entries{state="queued"}',
        "workers ",
        'records_owed{stream="actions"}',
    ):
        assert [line for line in metrics if line.startswith(f"crawlstream_{name}")], name


def question(number: int) -> dict[str, Any]:
    """A request of one of the many kinds that are answered."""
    kinds: list[dict[str, Any]] = [
        action("info"),
        action("info", crawlid=f"c{number}"),
        action("stop", crawlid=f"c{number}"),
        action("pause", crawlid=f"c{number}"),
        {"appid": APP, "stats": "redis-monitor"},
        {"appid": APP, "stats": "all"},
        {"appid": APP, "action": "blacklist-update", "domain": f"d{number % 7}.example"},
        {"appid": APP, "action": "blacklist-remove", "domain": f"d{number % 7}.example"},
    ]
    return {**kinds[number % len(kinds)], "uuid": f"question-{number}"}


async def is_at_work(redis: Redis, keys: FrontierKeys, pid: int) -> bool:
    """Return whether a monitor has taken actions that it has not answered yet."""
    nodes = {process.node for process in await living(redis, keys) if process.pid == pid}
    try:
        readers = await redis.xinfo_consumers(keys.actions(), GROUP)
    except ResponseError:  # nothing was read yet
        return False
    return any(reader["pending"] for reader in readers if reader["name"].decode() in nodes)


async def test_monitors_that_die_leave_no_question_open(
    cluster: MonitorCluster, witness: Witness, redis: Redis, wait_until: WaitUntil
) -> None:
    """Every request made while one of two monitors is killed again and again is answered."""
    landed = 0
    with cluster.redis_monitor(CRAWLSTREAM_FINISH_GRACE=GRACE_S) as dying:

        async def is_up(times: int) -> None:
            await wait_until(lambda: dying.starts() == times, timeout_s=90)

        for kill in range(KILLS):
            await is_up(kill + 1)
            questions = map(question, range(kill, QUESTIONS, KILLS))
            feeding = asyncio.create_task(asyncio.to_thread(witness.feed, *questions))
            is_working, give_up_at = False, time.monotonic() + 2
            while not is_working and time.monotonic() < give_up_at:
                is_working = await is_at_work(redis, cluster.keys, dying.pid)
                await asyncio.sleep(0.001)
            landed += is_working
            dying.kill()
            dying.start()
            await feeding
        for number in range(QUESTIONS):
            told = await witness.answered(f"question-{number}", timeout_s=120)
            assert "each time" not in told.get("error", "")
        await wait_until(lambda: has_answered_all(redis, cluster.keys))
        await is_up(KILLS + 1)
        assert dying.stop() == 0
    uuids = [seen.value.get("uuid") for seen in witness.records("outbound_firehose", appid=APP)]
    repeats = sum(count - 1 for uuid, count in Counter(uuids).items() if uuid)
    sys.stdout.write(f"{KILLS} kills, {landed} of them at work, {repeats} answers repeated\n")


async def test_an_emptied_redis_gets_its_rules_again(
    monitor: MonitorProcess,
    frontier: Frontier,
    witness: Witness,
    redis: Redis,
    wait_until: WaitUntil,
) -> None:
    """Grants nothing without rules until they are restored; questions are answered.

    The monitor logs a line each: nothing in it has failed.
    """
    await wait_until(frontier.rules.table)
    said = len(monitor.logged())
    await redis.flushall()
    await wait_until(frontier.rules.table)
    await witness.answered(witness.feed_request(**action("info")))
    said_of_it = monitor.logged()[said:]
    assert '"create_group"' in said_of_it
    assert '"exception"' not in said_of_it
