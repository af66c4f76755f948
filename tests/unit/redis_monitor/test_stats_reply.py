"""Stats replies have the keys and types of the predecessor's, quirks included."""

from __future__ import annotations

from typing import Any

import orjson

from crawlstream.model.request import StatsRequest
from crawlstream.model.traffic import DomainTraffic
from crawlstream.wire import replies
from redis_monitor.actions import stats_reply

NOW = 1795251152
WEEK = {"900": 1, "3600": 2, "lifetime": 3}


def ask(kind: str, section: replies.Section) -> dict[str, Any]:
    """The reply to a stats request, without the four keys that all have."""
    request = StatsRequest(uuid="u", appid="app", stats=kind)
    record = orjson.loads(replies.stats(request, section, server_time=NOW))
    assert isinstance(record, dict)
    common = {"stats": kind, "appid": "app", "uuid": "u", "server_time": NOW}
    assert record.items() >= common.items()
    return {name: value for name, value in record.items() if name not in common}


MONITOR = stats_reply.monitor(
    {("total",): WEEK, ("fail",): {"900": 1}, ("plugins", "ScraperHandler"): WEEK},
    {"host": ["d04fc705f669"]},
)
SPIDERS = stats_reply.spider(
    {("link", "200"): WEEK, ("link", "404"): WEEK, ("gone", "200"): WEEK},
    {"link": 2, "new": 1},
    {"a.example": DomainTraffic(responses=9, success_rate=0.75, latency_ms=None)},
)
MACHINES = stats_reply.machine({("host", "200"): WEEK})
QUEUES = stats_reply.queue({"link": {"a.example": 20, "b.example": 1}, "other": {}})


def test_stats_of_a_monitor() -> None:
    """Windows are keyed by their seconds as text; what was never counted is absent."""
    assert ask("kafka-monitor", MONITOR) == {
        "total": WEEK,
        "fail": {"900": 1},
        "plugins": {"ScraperHandler": WEEK},
        "nodes": {"host": ["d04fc705f669"]},
    }
    assert ask("rest", stats_reply.monitor({}, {"host": ["x"]})) == {"nodes": {"host": ["x"]}}
    assert ask("rest", stats_reply.monitor({}, {})) == {}


def test_stats_of_spiders() -> None:
    """Counts responses by spider and status, with the number of processes."""
    assert ask("spider", SPIDERS) == {
        "spiders": {
            "link": {"200": WEEK, "404": WEEK, "count": 2},
            "gone": {"200": WEEK, "count": 0},
            "new": {"count": 1},
            "unique_spider_count": 2,
            "total_spider_count": 3,
        },
        "domains": {
            "a.example": {"responses": 9, "success_rate": 0.75, "latency_ms": None, "reasons": {}}
        },
    }


def test_stats_of_machines() -> None:
    """Counts responses by host and status."""
    assert ask("machine", MACHINES) == {"machines": {"host": {"200": WEEK}, "count": 1}}


def test_stats_of_queues() -> None:
    """Counts queued pages by spider and domain; an empty queue has zeros."""
    assert ask("queue", QUEUES) == {
        "queues": {
            "queue_link": {
                "spider_backlog": 21,
                "num_domains": 2,
                "domains": [
                    {"domain": "a.example", "backlog": 20},
                    {"domain": "b.example", "backlog": 1},
                ],
            },
            "queue_other": {"spider_backlog": 0, "num_domains": 0, "domains": []},
            "total_backlog": 21,
        }
    }


def test_stats_of_crawlers_call_the_queues_queue() -> None:
    """A quirk that clients know."""
    record = ask("crawler", stats_reply.crawler(SPIDERS, MACHINES, QUEUES))
    assert set(record) == {"spiders", "domains", "machines", "queue"}
    assert record["queue"]["total_backlog"] == 21


def test_stats_of_everything_nest_the_parts() -> None:
    """Each part as it stands alone."""
    crawlers = stats_reply.crawler(SPIDERS, MACHINES, QUEUES)
    record = ask(
        "all", stats_reply.everything(MONITOR, MONITOR, crawlers, stats_reply.monitor({}, {}))
    )
    assert set(record) == {"kafka-monitor", "redis-monitor", "crawler", "rest"}
    assert record["crawler"] == ask("crawler", crawlers)
