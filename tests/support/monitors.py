"""The two monitors as processes between real servers, for tests."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from kafka import KafkaProducer
from kafka.admin import ConfigResource, KafkaAdminClient
from prometheus_client import Gauge

from crawlstream.boot.settings import Settings, load_settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import FrontierKeys, Topics
from crawlstream_chaos.processes import LoggedCrawler, RunningServer
from support.bus.values import values_of
from support.forks.program import Forked, ForkedCrawler, run

_TIMEOUT_S = 60


def published(gauge: Gauge) -> Mapping[tuple[str, ...], float]:
    """Values of a metric by the values of its labels, as Prometheus would read them here."""
    (family,) = gauge.collect()
    return {tuple(one.labels.values()): one.value for one in family.samples}


class MonitorProcess(Forked):
    """A monitor."""

    def __init__(self, module: str, *arguments: str, env: Mapping[str, str], log: Path) -> None:
        super().__init__(sys.executable, "-m", module, *arguments, env=env, log=log)

    def stop(self) -> int:
        """Ask it to end in order; its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(_TIMEOUT_S)

    def starts(self) -> int:
        """How often it has come so far as to work."""
        return self.logged().count('"event":"start"')


class Servers(NamedTuple):
    """Servers of the monitors."""

    redis: RunningServer
    kafka: RunningServer
    zookeeper: RunningServer


def named_after(file: Path) -> str:
    """The name of a cluster for one file of tests; another may have the same in its folder."""
    return f"{file.parent.name}_{file.stem}"


class MonitorCluster:
    """The servers that both monitors work with, under a prefix and a namespace of their own."""

    def __init__(
        self,
        servers: Servers,
        *,
        name: str,
        home: Path,
        partitions: int = 2,
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Create ``partitions`` for each topic; ``more``: further settings of its processes."""
        self.kafka_hosts = f"127.0.0.1:{servers.kafka.port}"
        self.zookeeper_hosts = f"127.0.0.1:{servers.zookeeper.port}"
        self.redis_port = servers.redis.port
        self.prefix = name
        self.topics = Topics(name)
        self.keys = FrontierKeys(name)
        self._home = home
        self._env = {
            **os.environ,
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(servers.redis.port),
            "REDIS_SOCKET_TIMEOUT": "1",
            "KAFKA_HOSTS": self.kafka_hosts,
            "ZOOKEEPER_HOSTS": self.zookeeper_hosts,
            "KAFKA_TOPIC_PREFIX": name,
            "KAFKA_GROUP": name,
            "ZOOKEEPER_ID": name,
            "CRAWLSTREAM_NAMESPACE": name,
            "CRAWLSTREAM_INCOMING_PARTITIONS": str(partitions),
            "LOG_JSON": "true",
            **more,
        }
        making = ensure_topics(
            Kafka([self.kafka_hosts], shape=TopicShape(partitions=partitions)), self.topics
        )
        asyncio.run(making)

    def feed_in_order(self, key: str, *requests: Mapping[str, object]) -> None:
        """Feed requests into one Kafka partition, in this order."""
        producer = KafkaProducer(bootstrap_servers=self.kafka_hosts)
        for request in requests:
            producer.send(self.topics.incoming, json.dumps(request).encode(), key=key.encode())
        producer.flush(_TIMEOUT_S)
        producer.close()

    def let_producers_set_times(self) -> None:
        """From now on a record has its producer's time."""
        admin = KafkaAdminClient(bootstrap_servers=self.kafka_hosts)
        configs = {"message.timestamp.type": "CreateTime"}
        admin.alter_configs([ConfigResource("topic", self.topics.incoming, configs)])
        admin.close()

    def feed_at(self, partition: int, ago_s: float, *requests: Mapping[str, object]) -> None:
        """Feed requests into one Kafka partition, with a time ``ago_s`` seconds before now."""
        producer = KafkaProducer(bootstrap_servers=self.kafka_hosts)
        at = int((time.time() - ago_s) * 1000)
        for request in requests:
            value = json.dumps(request).encode()
            producer.send(self.topics.incoming, value, partition=partition, timestamp_ms=at)
        producer.flush(_TIMEOUT_S)
        producer.close()

    def feed_by_hand(self, *arguments: str) -> int:
        """Run ``kafka-monitor feed``; its exit code."""
        words = ("kafka_monitor", "feed", *arguments)
        return run(*words, env=self._env, folder=Path.cwd(), timeout_s=_TIMEOUT_S).returncode

    def read_all(self, topic: str) -> list[bytes]:
        """Every record of a topic so far."""
        return values_of(self.kafka_hosts, topic)

    @property
    def env(self) -> Mapping[str, str]:
        """Environment of its processes."""
        return self._env

    def settings(self) -> Settings:
        """Return the settings of its processes."""
        told = {name: text for name, text in self._env.items() if os.environ.get(name) != text}
        return load_settings(**told)

    def python_path(self, *folders: Path) -> str:
        """PYTHONPATH with more folders on it."""
        return os.pathsep.join([*map(str, folders), self._env.get("PYTHONPATH", "")])

    @contextmanager
    def kafka_monitor(self, **env: str) -> Iterator[MonitorProcess]:
        """Run a kafka-monitor for the length of the block."""
        with self._running("kafka_monitor", "run", env=env) as process:
            yield process

    @contextmanager
    def redis_monitor(self, **env: str) -> Iterator[MonitorProcess]:
        """Run a redis-monitor for the length of the block."""
        with self._running("redis_monitor", env=env) as process:
            yield process

    @contextmanager
    def pipelines(self, file: Path, **env: str) -> Iterator[MonitorProcess]:
        """Run the pipelines of a file for the length of the block."""
        told = {"CRAWLSTREAM_PIPELINES": str(file), "CRAWLSTREAM_HOME": str(self._home), **env}
        with self._running("pipeline_service", "run", env=told) as process:
            yield process

    @contextmanager
    def crawler(self, spider: str, **env: str) -> Iterator[LoggedCrawler]:
        """Run a crawler for the length of the block; it visits this machine only."""
        local = {
            "CRAWLSTREAM_ALLOW_NETWORKS": "127.0.0.0/8",
            "CRAWLSTREAM_HOME": str(self._home),
            "ROBOTSTXT_OBEY": "false",
        }
        crawler = ForkedCrawler(spider, {**self._env, **local, **env}, self._home / f"{spider}.log")
        with crawler.running():
            yield crawler

    @contextmanager
    def _running(
        self, module: str, *arguments: str, env: Mapping[str, str]
    ) -> Iterator[MonitorProcess]:
        number = len(list(self._home.iterdir()))
        log = self._home / f"{module}-{number}.log"
        process = MonitorProcess(module, *arguments, env={**self._env, **env}, log=log)
        with process.running():
            yield process
