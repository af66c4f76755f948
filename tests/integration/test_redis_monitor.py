"""redis-monitor between real servers: every question answered, every crawl ended once."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from redis.asyncio import Redis

from crawlstream.cli.ports import free_block
from crawlstream.frontier.frontier import Frontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import Outcome, Settle
from crawlstream.stats.heartbeat import Heartbeat, Process
from crawlstream.stats.history import History
from crawlstream.stats.tally import Tally
from e2e.witness import Witness
from support.monitors import MonitorCluster, Servers
from support.servers import RunningServer
from support.waiting import WaitUntil

APP = "monitored"
WIDE_OPEN = {"QUEUE_HITS": "100000", "QUEUE_WINDOW": "1", "QUEUE_MODERATED": "false"}
NODE = "/scrapy-cluster/crawler/"

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
"""Keys of each kind of stats reply, beside those of every reply."""


@pytest.fixture
def running_servers(
    redis_server: RunningServer, kafka_server: RunningServer, zookeeper_server: RunningServer
) -> Servers:
    """All three."""
    return Servers(redis_server, kafka_server, zookeeper_server)


@pytest.fixture
async def cluster(
    redis: Redis, running_servers: Servers, fresh_name: str, tmp_path: Path
) -> AsyncIterator[MonitorCluster]:
    """The servers under a prefix of their own, with the topics made and a kafka-monitor."""
    cluster = MonitorCluster(redis, running_servers, prefix=fresh_name, home=tmp_path)
    await cluster.make_topics()
    with cluster.kafka_monitor():
        yield cluster


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


def action(name: str, **fields: object) -> dict[str, Any]:
    """An action request without its uuid."""
    return {"appid": APP, "spiderid": "link", "action": name, **fields}


async def is_blocked(cluster: MonitorCluster, domain: str) -> bool:
    """Whether a domain is on the blacklist that Redis applies."""
    rules = await cluster.frontier.rules()
    return rules is not None and domain in rules.blacklist


class Worker:
    """A worker that succeeds with each page at once."""

    def __init__(self, frontier: Frontier) -> None:
        self._frontier = frontier
        self._settles: list[Settle] = []
        self.finished = 0

    async def has_finished(self, count: int) -> bool:
        """Settle what is held, lease more; whether so many pages are done."""
        settled = self._settles
        exchanged = await self._frontier.exchange("worker", "link", settles=settled, want=200)
        self.finished += len(settled)
        self._settles = [
            Settle(token=hold.token, outcome=Outcome.DONE, reason="2xx") for hold in exchanged.holds
        ]
        return self.finished >= count


async def test_every_question_is_answered_with_the_keys_that_clients_know(
    cluster: MonitorCluster, witness: Witness, redis: Redis, wait_until: WaitUntil
) -> None:
    """info, stop and all kinds of stats, each under its own uuid."""
    crawler = Heartbeat(redis, FrontierKeys(), Process(kind="crawler", spider="link", host="h"))
    await crawler.beat()
    tally = Tally(redis, FrontierKeys())
    tally.count_response("link", "h", 200)
    await tally.flush()
    cluster.feed_in_order("x", seed("known", expires=int(time.time()) + 600, uuid="seed"))
    with cluster.redis_monitor():
        accepted = await witness.answered("seed")
        assert accepted == accepted | {"action": "accepted", "crawlid": "known", "run": 1}

        crawl = await witness.answered(witness.ask(**action("info", crawlid="known")))
        assert crawl.keys() >= ANSWERED | {"crawlid", "spiderid", "total_pending", "total_domains"}
        assert "action" not in crawl
        assert isinstance(crawl["expires"], str)
        assert crawl["domains"] == {
            "example.com": {"total": 1, "high_priority": 1, "low_priority": 1}
        }

        app = await witness.answered(witness.ask(**action("info")))
        assert app["crawlids"]["known"].keys() == {
            "total",
            "distinct_domains",
            "domains",
            "expires",
        }
        assert isinstance(app["crawlids"]["known"]["expires"], int)
        assert app.keys() == ANSWERED | {
            "spiderid",
            "crawlids",
            "total_pending",
            "total_domains",
            "total_crawlids",
        }

        await wait_until(lambda: History(redis, FrontierKeys()).read("kafka-monitor"))
        asked = {kind: witness.ask(appid=APP, stats=kind) for kind in STATS}
        told = {kind: await witness.answered(uuid) for kind, uuid in asked.items()}
        for kind, keys in STATS.items():
            assert told[kind].keys() >= ANSWERED | {"stats"} | keys, kind
        counts = told["crawler"]["spiders"]["link"]
        assert counts["200"] == dict.fromkeys(counts["200"], 1)
        assert counts["count"] == told["crawler"]["spiders"]["total_spider_count"] == 1
        assert told["machine"]["machines"]["h"]["200"]["lifetime"] == 1
        assert told["queue"]["queues"]["queue_link"] == {
            "spider_backlog": 1,
            "num_domains": 1,
            "domains": [{"domain": "example.com", "backlog": 1}],
        }
        assert "ScraperHandler" in told["kafka-monitor"]["plugins"]

        first, second, nobody, nothing = [
            witness.ask(**action("stop", crawlid="known")),
            witness.ask(**action("stop", crawlid="known")),
            witness.ask(**action("stop", crawlid="unheard-of")),
            witness.ask(**action("stop")),
        ]
        stops = [await witness.answered(uuid) for uuid in (first, second, nobody, nothing)]
        for stop in stops:
            assert stop.keys() >= ANSWERED | {"action", "spiderid", "crawlid", "total_purged"}
        assert sorted(stop["total_purged"] for stop in stops) == [0, 0, 0, 1]
        assert [stop.get("error") for stop in stops[2:]] != [None, None]
        ended = await witness.ended("known")
        assert ended["event"] == "crawl_stopped"


async def test_a_thousand_seeds_fed_one_by_one_are_one_run(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """One run, one beginning, one ending, whose counters add up."""
    total = 1000
    with cluster.redis_monitor(**WIDE_OPEN, CRAWLSTREAM_FINISH_GRACE="0.5"):
        witness.feed(*(seed("thousand", number) for number in range(total)))
        worker = Worker(cluster.frontier)
        await wait_until(lambda: worker.has_finished(total), timeout_s=20)
        ended = await witness.ended("thousand")
    assert ended["event"] == "crawl_finished"
    assert ended["run"] == 1
    assert ended["counters"]["admitted"] == ended["counters"]["done"] == total
    assert ended["counters"]["done_by_status"] == {"2xx": total}
    assert len(witness.events("thousand")) == 2


async def test_a_crawl_past_its_time_is_expired(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """The event, and the message that the predecessor's clients wait for."""
    with cluster.redis_monitor():
        witness.feed(seed("late", expires=1))
        ended = await witness.ended("late")
        (seen,) = await wait_until(lambda: witness.records("outbound_firehose", crawlid="late"))
    assert ended["event"] == "crawl_expired"
    assert ended["counters"]["expired"] == 1
    assert seen.value.keys() == {
        "action",
        "appid",
        "crawlid",
        "spiderid",
        "server_time",
        "total_expired",
    }
    assert (seen.value["action"], seen.value["total_expired"]) == ("expired", 1)


async def test_monitors_that_die_leave_no_question_open(
    cluster: MonitorCluster, witness: Witness
) -> None:
    """Actions fed while monitors are killed are all answered, by whoever lives."""
    with cluster.redis_monitor() as one, cluster.redis_monitor() as other:
        asked = []
        for dying in (one, other, one):
            asked += [witness.ask(**action("stop", crawlid=f"c{n}")) for n in range(50)]
            dying.kill()
            asked += [witness.ask(**action("info")) for _ in range(20)]
            dying.start()
        for uuid in asked:
            await witness.answered(uuid, timeout_s=20)
        assert one.stop() == other.stop() == 0


async def test_rules_are_edited_copied_and_fenced(
    cluster: MonitorCluster,
    witness: Witness,
    zookeeper_server: RunningServer,
    wait_until: WaitUntil,
) -> None:
    """Edits reach Redis; a bad edit is answered; a node made anew does not rule by itself."""
    node = NODE + cluster.prefix
    with cluster.redis_monitor(QUEUE_HITS="7") as monitor:
        edit = {"appid": APP, "domain": "example.com", "action": "domain-update"}
        done = await witness.answered(witness.ask(**edit, hits=60, window=30, scale=0.5))
        assert done.keys() == ANSWERED | {"action", "domain"}
        blocked = {**edit, "domain": "blocked.com", "action": "blacklist-update"}
        await witness.answered(witness.ask(**blocked))
        await wait_until(lambda: is_blocked(cluster, "blocked.com"))
        rules = await cluster.frontier.rules()
        assert rules is not None
        assert rules.default.hits == 7
        assert rules.rule_for("example.com").effective_hits == 30

        refused = await witness.answered(witness.ask(**edit, hits=0, window=30))
        assert "hits" in refused["error"]

        zookeeper = KazooClient(cluster.zookeeper_hosts)
        zookeeper.start()
        zookeeper.delete(node)
        zookeeper.create(node, b"domains: {}\n")
        zookeeper.stop()
        zookeeper.close()
        await wait_until(lambda: "crawlstream throttle adopt" in monitor.logged())
        assert await cluster.frontier.rules() == rules


async def test_a_redis_that_lost_its_rules_gets_them_again(
    cluster: MonitorCluster, redis: Redis, wait_until: WaitUntil
) -> None:
    """An emptied Redis grants nothing until the rules are back, and they come by themselves."""
    with cluster.redis_monitor():
        await wait_until(cluster.frontier.rules)
        await redis.flushall()
        await wait_until(cluster.frontier.rules)


async def test_replies_go_to_an_applications_own_topic_if_it_is_wanted(
    cluster: MonitorCluster, witness: Witness, wait_until: WaitUntil
) -> None:
    """KAFKA_APPID_TOPICS adds ``<prefix>.outbound_<appid>``, made on first use."""
    with cluster.redis_monitor(KAFKA_APPID_TOPICS="true"):
        reply = await witness.answered(witness.ask(**action("info")))
        own_topic = f"{cluster.prefix}.outbound_{APP}"
        own = await wait_until(lambda: cluster.read_all(own_topic))
    assert [json.loads(value) for value in own] == [reply]


async def test_a_monitor_tells_how_it_is(cluster: MonitorCluster, wait_until: WaitUntil) -> None:
    """/health answers while the duties go on."""
    port = free_block(1)
    with cluster.redis_monitor(CRAWLSTREAM_METRICS_PORT=str(port)):

        def health() -> dict[str, Any]:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as page:
                    told: dict[str, Any] = json.load(page)
            except OSError:
                return {}
            return told

        assert (await wait_until(health))["status"] == "ok"


PLUGIN = '''
from crawlstream.wire import jsontext
from redis_monitor.actions.door import Reply


class Ping:
    """Answers a ping."""

    name = "ping"

    def __init__(self, context):
        self.context = context

    async def answer(self, action):
        """Fail for whom it shall."""
        request = jsontext.loads(action.request)
        if request.get("crawlid") == "broken":
            raise ValueError("out of order")
        return Reply(request["appid"], jsontext.dumps({"uuid": request["uuid"], "pong": True}))
'''


async def test_an_installed_action_is_answered_and_a_failing_one_too(
    cluster: MonitorCluster, witness: Witness, redis: Redis, tmp_path: Path
) -> None:
    """A user's action, found by its entry point; after three failures the answer is an error."""
    site = tmp_path / "site"
    info = site / "pinger-1.dist-info"
    info.mkdir(parents=True)
    (site / "pinger.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pinger\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[crawlstream.actions]\nping = pinger:Ping\n")
    for uuid, crawlid in (("fine", "c"), ("bad", "broken")):
        request = json.dumps({"uuid": uuid, "appid": APP, "crawlid": crawlid})
        await redis.xadd(FrontierKeys().actions(), {"name": "ping", "request": request})
    with cluster.redis_monitor(PYTHONPATH=cluster.python_path(site)):
        assert (await witness.answered("fine"))["pong"] is True
        failed = await witness.answered("bad")
    assert failed["reason"] == "action_failed"
    assert "out of order" in failed["errors"][0]
    assert await redis.xlen(FrontierKeys().actions()) == 0
