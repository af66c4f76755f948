"""A topic of results on a real Kafka, and pipeline processes that read it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from kafka import KafkaProducer

from crawlstream.bus.connect import Kafka
from crawlstream.bus.shape import TopicShape
from crawlstream.bus.topics import ensure_topics
from crawlstream.keys import Topics
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent
from crawlstream.store.store import Store
from crawlstream.wire import events
from crawlstream_chaos.processes import Program, RunningServer
from support.bus.values import values_of
from support.forks.program import Forked, run
from support.pipelines.reading import pages_in

_TIMEOUT_S = 180


class PipelineCluster:
    """Topics under a prefix of its own, a file of pipelines, and a folder for what they write."""

    def __init__(
        self, kafka: RunningServer, redis: RunningServer, *, prefix: str, home: Path
    ) -> None:
        self.hosts = f"127.0.0.1:{kafka.port}"
        self.topics = Topics(prefix)
        self.home = home
        self.file = home / "pipelines.toml"
        self.out = home / "out"
        self.env = {
            **os.environ,
            "KAFKA_HOSTS": self.hosts,
            "KAFKA_TOPIC_PREFIX": prefix,
            "REDIS_HOST": "127.0.0.1",
            "REDIS_PORT": str(redis.port),
            "CRAWLSTREAM_NAMESPACE": prefix,
            "CRAWLSTREAM_PIPELINES": str(self.file),
            "CRAWLSTREAM_SPOOL": str(home / "spool"),
            "LOG_JSON": "true",
        }

    async def make_topics(self, partitions: int = 2) -> None:
        """Create the topics."""
        await ensure_topics(
            Kafka([self.hosts], shape=TopicShape(partitions=partitions)), self.topics
        )

    def describe(self, *, which: str = "jsonl", more: str = "", sink: str = "") -> None:
        """Write the file of the pipelines: one, called ``archive``."""
        self.file.write_text(
            f'[pipeline.archive]\n{more}\n[pipeline.archive.sink]\nkind = "files"\n'
            f'path = "{self.out}"\nformat = "{which}"\nmax_age = "1s"\n{sink}\n'
        )

    def describe_sink(self, sink: str, more: str = "") -> None:
        """Write the file of the pipelines: one, called ``archive``, with this sink."""
        self.file.write_text(f"[pipeline.archive]\n{more}\n[pipeline.archive.sink]\n{sink}\n")

    def process(self, name: str = "p", **env: str) -> Program:
        """A pipeline process, not started yet."""
        argv = (sys.executable, "-m", "pipeline_service", "run")
        return Forked(*argv, env={**self.env, **env}, log=self.home / f"{name}.log")

    def command(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Run ``crawlstream pipeline …`` to its end."""
        argv = ("crawlstream_cli", "pipeline", *arguments)
        return run(*argv, env={**self.env, **env}, folder=self.home, timeout_s=_TIMEOUT_S)

    def feed(
        self, values: Iterable[bytes | None], *, topic: str = "", key: bytes | None = None
    ) -> None:
        """Write records to the topic of results; each goes where its id leads, as crawlers do."""
        producer = KafkaProducer(
            bootstrap_servers=self.hosts, max_request_size=16 << 20, compression_type="gzip"
        )
        for value in values:
            place = key or (orjson.loads(value)["id"].encode() if value and not key else None)
            producer.send(topic or self.topics.crawled, value, key=place)
        producer.flush(_TIMEOUT_S)
        producer.close()

    def end_run(self, *, done: int) -> None:
        """Report that the run of all pages has ended, as the redis-monitor does."""
        ending = CrawlEvent(
            event="crawl_finished",
            crawl=CrawlKey("link", "app", "job"),
            run=1,
            server_time=1,
            started_at=1,
            counters={"admitted": done, "done": done},
        )
        self.feed([events.encode(ending)], topic=self.topics.events, key=b"ending")

    def deliveries(self) -> Sequence[Mapping[str, Any]]:
        """The events `run_delivered`."""
        told = self.records(self.topics.events)
        return [each for each in told if each["event"] == "run_delivered"]

    def stored(self, which: str = "jsonl") -> Counter[str]:
        """How often each page is in the files."""
        store = Store.at(str(self.out / "archive" / "edition=1"))
        return Counter(page.id for page in pages_in(store, which))

    def read(self) -> int:
        """How many records the accounts of all that is finished have."""
        logs = (self.out / "archive" / "edition=1" / "_log").glob("*-?????")
        newest = [max(log.glob("*.done.json"), default=None) for log in logs]
        return sum(orjson.loads(file.read_bytes())["total"]["read"] for file in newest if file)

    def records(self, topic: str) -> Sequence[Mapping[str, Any]]:
        """Every record of a topic, as JSON."""
        return [orjson.loads(value) for value in values_of(self.hosts, topic)]
