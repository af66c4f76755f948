"""Rights in Kafka: those that are documented suffice, and refusals are reported."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.request import urlopen

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
from support.waiting import WaitUntil

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
    told = {"CRAWLSTREAM_METRICS_PORT": str(port), **WIDE_OPEN, **env}
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


async def test_the_documented_rights_suffice_and_a_lost_one_is_named(
    cluster: MonitorCluster, guarded: GuardedKafka, tmp_path: Path, wait_until: WaitUntil
) -> None:
    """Keeps a crawl that is fed while rights are missing; health names the page with them."""
    witness = Witness(cluster.kafka_hosts, cluster.prefix)
    with ExitStack() as stack:
        stack.callback(witness.close)
        site = stack.enter_context(serving({"/": page("/a"), "/a": page()}))
        run = {
            each: stack.enter_context(each(cluster, tmp_path))
            for each in (kafka_monitor, redis_monitor, crawler, rest, pipeline)
        }
        crawl = {"appid": "app", "url": site.url("/"), "maxdepth": 1}
        witness.feed({**crawl, "crawlid": "first"})
        ending = await witness.ended("first")
        assert ending["counters"]["done"] == 2
        await wait_until(lambda: not any(each.waiting_for for each in run.values()))

        with guarded.denied("WRITE", "topic", cluster.topics.crawled):
            witness.feed({**crawl, "crawlid": "second"})
            await wait_until(lambda: "docs/security.md" in run[crawler].waiting_for)
        assert (await witness.ended("second"))["counters"]["done"] == 2
        with guarded.denied("READ", "topic", cluster.topics.incoming):
            await wait_until(lambda: "docs/security.md" in run[kafka_monitor].waiting_for)
            witness.feed({**crawl, "crawlid": "third"})
        assert (await witness.ended("third"))["counters"]["done"] == 2
        await wait_until(lambda: not any(each.waiting_for for each in run.values()))
        logs = "".join(each.program.logged() for each in run.values())
    assert "Traceback" not in logs
