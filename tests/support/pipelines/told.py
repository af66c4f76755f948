"""Reports of pipeline processes about themselves and runs, as others see them."""

from __future__ import annotations

import json
import time
from typing import Any

from kafka import KafkaProducer
from redis.asyncio import Redis

from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat
from support.monitors import MonitorCluster

ACCOUNT = {
    "read": 12, "delivered": 8, "repeats": 1, "lost": 0,
    "filtered": {"where.status": 2}, "undelivered": {"unreadable": 1},
}  # fmt: skip


def report(*, position: int = 12, end: int = 20, **changes: Any) -> dict[str, Any]:
    """Report of a process about a pipeline of one partition."""
    part = {"position": position, "end": end, **ACCOUNT}
    told = {"edition": 1, "source": "demo.crawled_firehose", "broken": "", "waiting_for": ""}
    return {**told, "oldest_s": 2.5, "partitions": {"0": part}, **changes}


def process(**pipelines: dict[str, Any]) -> Process:
    """A pipeline process."""
    return Process(kind="pipeline", pipelines=pipelines)


async def beat(redis: Redis, cluster: MonitorCluster, **pipelines: dict[str, Any]) -> Heartbeat:
    """A process that lives for a while."""
    heartbeat = Heartbeat(
        redis, cluster.keys, Process(kind="pipeline"), pipelines=lambda: pipelines
    )
    await heartbeat.beat()
    return heartbeat


def tell_run(cluster: MonitorCluster, run: int = 1, **more: Any) -> None:
    """The event of a run that is stored; later versions say more of it."""
    told = {
        "event": "run_delivered", "appid": "shop", "crawlid": "spring", "spiderid": "link",
        "run": run, "server_time": int(time.time()) + run, "pipeline": "archive", "edition": 1,
        "complete": True, "done": 9, "read": 10, "repeats": 1, "silent": 0, "delivered": 9,
        "filtered": {}, "undelivered": 0, **more,
    }  # fmt: skip
    producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
    # Under the key of its run, as pipelines send it: records of a run stay in order.
    key = b"%d" % run
    producer.send(cluster.topics.events, json.dumps(told).encode(), key=key).get(60)
    producer.close()
