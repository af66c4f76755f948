"""The parts of a stats reply, in the predecessor's format; ``replies.stats`` sends them.

A counter is named by its path, as ``stats.counter_history`` reads it; its value is a count per
window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from crawlstream.model.traffic import DomainTraffic
from crawlstream.wire.replies import Section

Counted = Mapping[tuple[str, ...], Mapping[str, int]]
"""Path of a counter -> window in seconds, as text, or ``lifetime`` -> count."""


def monitor(counted: Counted, nodes: Mapping[str, Sequence[str]]) -> Section:
    """Return ``total``, ``fail``, ``plugins`` and ``nodes`` of a kind of process, if not empty.

    ``counted`` has the paths ``total``, ``fail`` and ``plugins/<class>``; ``nodes`` maps host
    names to the names of their processes.
    """
    section: dict[str, Any] = {
        name: dict(counted[name,]) for name in ("total", "fail") if counted.get((name,))
    }
    plugins = {path[1]: dict(counts) for path, counts in counted.items() if path[0] == "plugins"}
    if plugins:
        section["plugins"] = plugins
    if nodes:
        section["nodes"] = {host: list(names) for host, names in nodes.items()}
    return section


def spider(
    counted: Counted, running: Mapping[str, int], domains: Mapping[str, DomainTraffic]
) -> Section:
    """Return counts by spider and status, and the busiest domains.

    ``running`` has the number of processes of each spider.
    """
    spiders: dict[str, Any] = {}
    by_name = _by_name_and_status(counted)
    for name in {**by_name, **running}:
        spiders[name] = {**by_name.get(name, {}), "count": running.get(name, 0)}
    spiders["unique_spider_count"] = len(running)
    spiders["total_spider_count"] = sum(running.values())
    told = {name: asdict(one) for name, one in domains.items()}
    for one in told.values():
        # Only for charts; this reply has other windows.
        del one["per_minute"]
    return {"spiders": spiders, "domains": told}


def machine(counted: Counted) -> Section:
    """Return counts by host and status."""
    machines = _by_name_and_status(counted)
    return {"machines": {**machines, "count": len(machines)}}


def queue(backlog: Mapping[str, Mapping[str, int]]) -> Section:
    """Return the number of queued entries by spider and domain."""
    queues: dict[str, Any] = {
        f"queue_{name}": {
            "spider_backlog": sum(domains.values()),
            "num_domains": len(domains),
            "domains": [{"domain": d, "backlog": count} for d, count in domains.items()],
        }
        for name, domains in backlog.items()
    }
    total = sum(sum(domains.values()) for domains in backlog.values())
    return {"queues": {**queues, "total_backlog": total}}


def crawler(spiders: Section, machines: Section, queues: Section) -> Section:
    """Return the three parts together; ``queues`` of ``queue`` is named ``queue`` here."""
    return {**spiders, **machines, "queue": queues["queues"]}


def everything(
    kafka_monitor: Section, redis_monitor: Section, crawlers: Section, rest: Section
) -> Section:
    """Return the sections of all parts of the cluster."""
    return {
        "kafka-monitor": kafka_monitor,
        "redis-monitor": redis_monitor,
        "crawler": crawlers,
        "rest": rest,
    }


def _by_name_and_status(counted: Counted) -> Mapping[str, dict[str, Any]]:
    tree: dict[str, dict[str, Any]] = defaultdict(dict)
    for (name, status), counts in counted.items():
        tree[name][status] = dict(counts)
    return tree
