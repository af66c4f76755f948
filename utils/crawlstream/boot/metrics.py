"""What every process tells Prometheus."""

from __future__ import annotations

from prometheus_client import Gauge

PROCESS_WAITING = Gauge(
    "crawlstream_process_waiting",
    "1 while the process waits for Redis, Kafka or ZooKeeper; /health names which.",
)
