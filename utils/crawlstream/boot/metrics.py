"""Metrics that every process exports to Prometheus."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, disable_created_metrics

# They double the series, and Prometheus finds the beginning of a counter by itself.
disable_created_metrics()  # type: ignore[no-untyped-call]

PROCESS_WAITING = Gauge(
    "crawlstream_process_waiting",
    "1 while the process waits for Redis, Kafka or ZooKeeper; /health names the server.",
)


def total_of(*metrics: Counter | Gauge) -> float:
    """Sum of the values of these metrics over all their labels."""
    samples = [one for metric in metrics for family in metric.collect() for one in family.samples]
    return sum(one.value for one in samples if not one.name.endswith("_created"))
