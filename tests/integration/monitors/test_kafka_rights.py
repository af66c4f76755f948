"""Rights in Kafka: those that are documented suffice, and refusals are reported."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from redis.asyncio import Redis

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Out
from crawlstream.bus.sink import KafkaSink
from crawlstream.bus.tail import read_topic
from crawlstream.bus.topics import ensure_topics, list_topics
from crawlstream.errors import ConfigError, KafkaRefused
from crawlstream.keys import Topics
from crawlstream_chaos.processes import Program, RunningServer
from crawlstream_chaos.scripted_site import page, serving
from crawlstream_chaos.witness import Witness
from crawlstream_cli.local.ports import free_block
from support.bus.guarded import GuardedKafka, guarded_kafka
from support.crawler.spread_web import WIDE_OPEN
from support.monitors import MonitorCluster, MonitorProcess, Servers
from support.waiting import wait_until

DOCUMENT = Path(__file__).parents[3] / "docs" / "security.md"
_GRANT = re.compile(r"--operation (\w+) --(topic|group|transactional-id) (\S+)")
PREFIX = "demo"
"""As the document has it."""
PIPELINES = """
[pipeline.one]
sink = {{ kind = "files", path = "{folder}" }}
"""


class Started(NamedTuple):
    """A process, and the port of its health."""

    program: Program
    port: int

    @property
    def waiting_for(self) -> str:
        """Return the service that it waits for, with the reason."""
        with urlopen(f"http://127.0.0.1:{self.port}/health", timeout=10) as answer:
            return str(json.load(answer)["waiting_for"])


soon = partial(wait_until, every_s=0.2)
Run = Callable[..., AbstractContextManager[Started]]


@contextmanager
def kafka_monitor(cluster: MonitorCluster, _: Path, **env: str) -> Iterator[Started]:
    """Run a kafka-monitor."""
    port = free_block(1)
    with cluster.kafka_monitor(CRAWLSTREAM_METRICS_PORT=str(port), **env) as process:
        yield Started(process, port)


@contextmanager
def redis_monitor(cluster: MonitorCluster, _: Path, **env: str) -> Iterator[Started]:
    """Run a redis-monitor."""
    port = free_block(1)
    quick = {"CRAWLSTREAM_FINISH_GRACE": "0.3", **WIDE_OPEN}
    told = {"CRAWLSTREAM_METRICS_PORT": str(port), **quick, **env}
    with cluster.redis_monitor(**told) as process:
        yield Started(process, port)


@contextmanager
def crawler(cluster: MonitorCluster, _: Path, **env: str) -> Iterator[Started]:
    """Run a crawler."""
    port = free_block(1)
    with cluster.crawler("link", CRAWLSTREAM_METRICS_PORT=str(port), **env) as process:
        yield Started(process, port)


@contextmanager
def rest(cluster: MonitorCluster, home: Path, **env: str) -> Iterator[Started]:
    """Run a REST service."""
    port = free_block(2)
    ports = {"CRAWLSTREAM_METRICS_PORT": str(port), "CRAWLSTREAM_REST_PORT": str(port + 1)}
    told = {**cluster.env, **ports, **env}
    process = MonitorProcess("rest_service", env=told, log=home / "rest.log")
    with process.running():
        yield Started(process, port)


@contextmanager
def pipeline(cluster: MonitorCluster, home: Path, **env: str) -> Iterator[Started]:
    """Run a pipeline."""
    port = free_block(1)
    file = home / "pipelines.toml"
    file.write_text(PIPELINES.format(folder=home / "out"))
    with cluster.pipelines(file, CRAWLSTREAM_METRICS_PORT=str(port), **env) as process:
        yield Started(process, port)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedKafka]:
    """A Kafka whose user has the documented rights."""
    with guarded_kafka(tmp_path_factory.mktemp("guarded")) as kafka:
        for operation, kind, name in _GRANT.findall(DOCUMENT.read_text()):
            kafka.grant(operation, kind, name)
        yield kafka


@pytest.fixture(scope="module")
def cluster(
    guarded: GuardedKafka,
    redis_server: RunningServer,
    zookeeper_server: RunningServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> MonitorCluster:
    """Processes of the cluster are the user; the test is not."""
    servers = Servers(redis_server, guarded.server, zookeeper_server)
    home = tmp_path_factory.mktemp("monitors")
    more = {**guarded.env, "KAFKA_GROUP": f"{PREFIX}-group"}
    return MonitorCluster(servers, name=PREFIX, home=home, more=more)


async def test_every_client_says_who_it_is(
    guarded: GuardedKafka, monkeypatch: pytest.MonkeyPatch, fresh_name: str
) -> None:
    """Creates, writes and reads topics with the password; a wrong one is named."""
    for name, value in guarded.env.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("CRAWLSTREAM_MAX_RECORD_BYTES", str(1 << 20))
    kafka, topics = kafka_of(load_settings()), Topics(f"{PREFIX}.{fresh_name}")
    await ensure_topics(kafka, topics)
    async with KafkaSink(kafka) as sink:
        await sink.send([Out(topics.events, b"seen")])
    records = read_topic(kafka, topics.events, from_beginning=True, follow=False)
    assert [record.value async for record in records] == [b"seen"]

    monkeypatch.setenv("CRAWLSTREAM_KAFKA_SASL_PASSWORD", "wrong")
    kafka = kafka_of(load_settings())
    with pytest.raises(KafkaRefused, match="CRAWLSTREAM_KAFKA_SASL_PASSWORD"):
        await list_topics(kafka)
    with pytest.raises(KafkaRefused, match="CRAWLSTREAM_KAFKA_SASL_PASSWORD"):
        await anext(read_topic(kafka, topics.events))
    with pytest.raises(ConfigError, match="CRAWLSTREAM_KAFKA_SASL_PASSWORD"):
        async with KafkaSink(kafka):
            pass


@pytest.mark.parametrize("run", [kafka_monitor, redis_monitor, crawler, rest, pipeline])
async def test_a_wrong_password_ends_a_process_with_2(
    cluster: MonitorCluster, redis: Redis, tmp_path: Path, run: Run
) -> None:
    """Ends with a sentence that names the settings, instead of waiting."""
    await redis.hset(cluster.keys.meta(), mapping={"layout": "1"})
    with run(cluster, tmp_path, CRAWLSTREAM_KAFKA_SASL_PASSWORD="wrong") as started:
        assert started.program.wait(60) == 2
        told = started.program.logged()
    assert "CRAWLSTREAM_KAFKA_SASL_USERNAME and CRAWLSTREAM_KAFKA_SASL_PASSWORD (" in told
    assert "Traceback" not in told, told


@pytest.mark.parametrize(
    ("run", "operation", "kind", "name"),
    [
        (kafka_monitor, "READ", "topic", "incoming"),
        (kafka_monitor, "ALL", "group", "-group"),
        (redis_monitor, "WRITE", "topic", "events"),
        (crawler, "WRITE", "topic", "crawled_firehose"),
        (rest, "WRITE", "topic", "incoming"),
        (pipeline, "ALL", "group", ".pipeline.one.1"),
    ],
)
async def test_a_missing_right_ends_a_process_with_2(
    cluster: MonitorCluster,
    guarded: GuardedKafka,
    redis: Redis,
    tmp_path: Path,
    *,
    run: Run,
    operation: str,
    kind: str,
    name: str,
) -> None:
    """Ends with a sentence that names the right, and the page with all of them."""
    await redis.hset(cluster.keys.meta(), mapping={"layout": "1"})
    called = f"{PREFIX}.{name}" if kind == "topic" else f"{PREFIX}{name}"
    with guarded.denied(operation, kind, called), run(cluster, tmp_path) as started:
        assert started.program.wait(60) == 2
        told = started.program.logged()
    right = operation.replace("ALL", "READ")
    assert f"Kafka refuses {right} on {kind} {called}: give its user the rights in" in told
    assert "Traceback" not in told, told


LOST: Sequence[tuple[str, str, str, Sequence[Run]]] = (
    ("WRITE", "topic", ".crawled_firehose", [crawler]),
    ("WRITE", "topic", ".events", [redis_monitor]),
    ("WRITE", "topic", ".outbound_firehose", [redis_monitor]),
    ("WRITE", "topic", ".rejected", [kafka_monitor]),
    ("WRITE", "topic", ".incoming", [redis_monitor, rest]),
    ("WRITE", "topic", ".runs", [redis_monitor]),
    ("READ", "topic", ".incoming", [kafka_monitor]),
    ("READ", "topic", ".outbound_firehose", [rest]),
    ("READ", "topic", ".crawled_firehose", [pipeline]),
    ("READ", "group", "-group", [kafka_monitor]),
    ("READ", "group", ".pipeline.one.1", [pipeline]),
)
"""Rights that are taken away from running processes, and those that need each."""


@dataclass(frozen=True, slots=True)
class Client:
    """Has every process use all its rights, and knows what has to come of it."""

    cluster: MonitorCluster
    witness: Witness
    url: str
    """URL of a page with one link."""
    rest_port: int

    def set_up(self) -> None:
        """Set a schedule that fires by request only."""
        told = {"cron": "0 0 29 2 *", "overlap": "join", "seeds": [self.url]}
        self._say("set", **told, crawl={"crawlid": "fired-{at}", "maxdepth": 1})

    def _say(self, do: str, **more: object) -> None:
        told = {"uuid": do, "appid": "app", "schedule": "s", "do": do, **more}
        self.cluster.feed_in_order("app:s", told)

    def use_all(self, name: str) -> None:
        """Crawl, ask, send what is refused, and fire."""
        crawl = {"appid": "app", "url": self.url, "maxdepth": 1}
        self.witness.feed(
            {**crawl, "crawlid": name},
            {"action": "info", "appid": "app", "spiderid": "link", "uuid": name},
        )
        # Without ids, so that kafka-monitor has no reply to write.
        self.witness.feed_raw(b"{")
        self._say("fire")

    async def ask(self, name: str) -> bool:
        """Ask a REST service; whether it could answer."""

        def post() -> bool:
            asked = {"action": "info", "appid": "app", "spiderid": "link", "uuid": name}
            body = json.dumps(asked).encode()
            kind = {"Content-Type": "application/json"}
            request = Request(f"http://127.0.0.1:{self.rest_port}/feed", body, kind)
            try:
                with urlopen(request, timeout=60) as answer:  # noqa: S310  its own
                    return "poll_id" not in json.load(answer)["data"]
            except HTTPError as error:
                error.close()
                return False

        return await asyncio.to_thread(post)

    async def has_all(self, name: str, firings: int) -> None:
        """Wait for what has to come of it, none of it lost."""
        assert (await self.witness.ended(name))["counters"]["done"] == 2
        assert await self.witness.answered(name)
        await wait_until(lambda: self._count("rejected") == firings)
        fired = {"event": "schedule_fired", "schedule": "s"}
        await wait_until(lambda: self._count("events", **fired) == firings)
        await soon(lambda: self.ask(f"rest-{name}"))

    def _count(self, topic: str, **fields: object) -> int:
        return len({each.key for each in self.witness.records(topic, **fields)})


async def test_the_documented_rights_suffice_and_a_lost_one_is_named(
    cluster: MonitorCluster, guarded: GuardedKafka, tmp_path: Path
) -> None:
    """Loses nothing that is fed while a right is missing; health names the page with the rights."""
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    with ExitStack() as stack:
        stack.callback(witness.close)
        site = stack.enter_context(serving({"/": page("/a"), "/a": page()}))
        run: dict[Run, Started] = {
            each: stack.enter_context(each(cluster, tmp_path))
            for each in (kafka_monitor, redis_monitor, crawler, rest, pipeline)
        }
        client = Client(cluster, witness, site.url("/"), run[rest].port + 1)
        client.set_up()
        client.use_all("first")
        await client.has_all("first", 1)
        for firings, (operation, kind, name, needed_by) in enumerate(LOST, 2):
            crawlid = f"{operation}-{kind}-{name.strip('.-')}".lower()
            with guarded.denied(operation, kind, f"{PREFIX}{name}"):
                client.use_all(crawlid)
                asking = asyncio.ensure_future(client.ask(f"without-{crawlid}"))
                for each in needed_by:
                    await soon(lambda each=run[each]: "docs/security.md" in each.waiting_for)
            await client.has_all(crawlid, firings)
            await soon(lambda: not any(each.waiting_for for each in run.values()))
            await asking
        logs = "".join(each.program.logged() for each in run.values())
        for each in (kafka_monitor, pipeline):
            assert "Kafka refuses a right on a consumer group" in run[each].program.logged()
    assert "Traceback" not in logs
