"""A crawl over three partitions, each on a Redis of its own that can be struck."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis import Redis

from crawlstream.keys import Partitions
from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import CrawlerSite, serving
from crawlstream_chaos.witness import Witness
from crawlstream_frontier.codec.values import unpack
from support import servers as real
from support.crawler.spread_web import WIDE_OPEN
from support.monitors import MonitorCluster, Servers

APP = "faults"


@dataclass
class Divided:
    """Three Redis, what works with them, and a web whose hosts are spread over them."""

    cluster: MonitorCluster
    redis: list[RunningServer]
    witness: Witness
    site: CrawlerSite

    def hosts(self, partition: int, count: int = 3) -> list[str]:
        """Some hosts whose pages lie in a partition."""
        partitions = Partitions(self.cluster.prefix, 3)
        every = (f"127.0.1.{n}" for n in range(2, 250))
        return [host for host in every if partitions.of(host) == partition][:count]

    @contextmanager
    def running(self, **limits: str) -> Iterator[None]:
        """Run both monitors and a crawler in the block; sites have no limit of requests."""
        with ExitStack() as stack:
            stack.enter_context(self.cluster.kafka_monitor())
            stack.enter_context(self.cluster.redis_monitor(**{**WIDE_OPEN, **limits}))
            stack.enter_context(self.cluster.crawler("link"))
            yield

    def feed(self, crawlid: str, urls: list[str], **more: object) -> None:
        """Feed a seed to each of these."""
        crawl = {"appid": APP, "crawlid": crawlid, "maxdepth": 60, **more}
        self.witness.feed(*({"url": url, **crawl} for url in urls))

    def agree(self) -> bool:
        """Return whether all know the latest run, so that none has to query the coordinator."""
        known = set[bytes]()
        for p, server in enumerate(self.redis):
            tag = Partitions(self.cluster.prefix, 3).keys(p).tag
            with Redis(port=server.port) as redis:
                label: Any = redis.hget(tag + "x:1", "label")
                registered: Any = redis.hvals(tag + "reg")
            known.add((label or f"none {p} {p}".encode()).split()[2])
            known |= {b"%d" % unpack(each)[b"number"] for each in registered}
        return len(known) == 1

    def home(self, crawlid: str) -> int:
        """The partition that knows which run of a crawl is open."""
        return Partitions(self.cluster.prefix, 3).coordinator(CrawlKey("link", APP, crawlid))

    def wipe(self, partition: int) -> None:
        """Its disk is lost, and an empty one takes its place."""
        server = self.redis[partition]
        server.kill()
        for path in server.server.folder.glob("data/*/*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        server.start()

    def log(self, partition: int) -> Path:
        """The part of its append-only file that is being written."""
        parts = self.redis[partition].server.folder.glob("data/*/*/*.incr.aof")
        return max(parts, key=lambda path: int(path.name.split(".")[-3]))

    def go_back(self, partition: int, size: int) -> None:
        """It loses what it has written behind a place of its log."""
        log = self.log(partition)
        self.redis[partition].kill()
        os.truncate(log, size)
        self.redis[partition].start()


@contextmanager
def crawled(servers: Sequence[RunningServer], name: str, folder: Path) -> Iterator[Divided]:
    """A cluster with Redis of its own, and Kafka and ZooKeeper of ``servers``."""
    kafka, zookeeper = servers
    with ExitStack() as stack:
        redis = [stack.enter_context(real.redis(folder / f"redis{n}")) for n in range(3)]
        told = {
            "REDIS_HOSTS": ",".join(f"127.0.0.1:{server.port}" for server in redis),
        }
        home = folder / "home"
        home.mkdir()
        used = Servers(redis[0], kafka, zookeeper)
        cluster = MonitorCluster(used, name=name, home=home, more=told)
        witness = Witness(cluster.kafka_hosts, cluster.prefix)
        stack.callback(witness.close)
        site = stack.enter_context(serving({}))
        yield Divided(cluster, redis, witness, site)
