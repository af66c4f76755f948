"""Every kind of reply of a live cluster, key by key and type by type.

``KEPT`` has the keys of the predecessor's records, quirks included; ``ADDED`` those that this
cluster adds. A reply with a key that is in neither, or not named in docs/wire.md, fails.
"""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster
from e2e.sites import Serve
from support.waiting import WaitUntil

PAGE = Path(__file__).parents[2] / "docs" / "wire.md"
APP = "replies"

OTHER = "*"
"""In a shape: any key that is not named."""
WINDOWS = {"900", "3600", "21600", "43200", "86400", "604800", "lifetime"}


class Count:
    """The shape of a count by window; windows without any are absent."""


ASKED = {"uuid": str, "appid": str, "server_time": int}
OF_CRAWL = {**ASKED, "spiderid": str, "crawlid": str}
ACTION = {**OF_CRAWL, "action": str}
BACKLOG = {"total": int, "high_priority": int, "low_priority": int}
STATS = {**ASKED, "stats": str}
MONITOR = {"total?": Count, "fail?": Count, "plugins?": {OTHER: Count}, "nodes?": {OTHER: [str]}}
SPIDERS = {
    "unique_spider_count": int,
    "total_spider_count": int,
    OTHER: {"count?": int, OTHER: Count},
}
MACHINES = {"count": int, OTHER: {OTHER: Count}}
QUEUES = {
    "total_backlog": int,
    OTHER: {
        "spider_backlog": int,
        "num_domains": int,
        "domains": [{"domain": str, "backlog": int}],
    },
}

KEPT: Mapping[str, Mapping[str, Any]] = {
    "info without crawlid": {
        **ASKED,
        "spiderid": str,
        "total_pending": int,
        "total_domains": int,
        "total_crawlids": int,
        "crawlids": {
            OTHER: {
                "total": int,
                "distinct_domains": int,
                "domains": {OTHER: BACKLOG},
                "expires?": int,
            }
        },
    },
    "info with crawlid": {
        **OF_CRAWL,
        "total_pending": int,
        "total_domains": int,
        "domains": {OTHER: BACKLOG},
        "expires?": str,
    },
    "stop": {**ACTION, "total_purged": int},
    "zookeeper": {**ASKED, "action": str, "domain": str},
    "expired": {
        "action": str,
        "appid": str,
        "crawlid": str,
        "spiderid": str,
        "total_expired": int,
        "server_time": int,
    },
    "kafka-monitor": {**STATS, **MONITOR},
    "redis-monitor": {**STATS, **MONITOR},
    "rest": {**STATS, **MONITOR},
    "spider": {**STATS, "spiders": SPIDERS},
    "machine": {**STATS, "machines": MACHINES},
    "queue": {**STATS, "queues": QUEUES},
    "crawler": {**STATS, "spiders": SPIDERS, "machines": MACHINES, "queue": QUEUES},
    "all": {
        **STATS,
        "kafka-monitor": MONITOR,
        "redis-monitor": MONITOR,
        "crawler": {"spiders": SPIDERS, "machines": MACHINES, "queue": QUEUES},
        "rest": MONITOR,
    },
}

BY_REASON = {OTHER: int}
DOMAINS = {
    "domains": {
        OTHER: {
            "responses": int,
            "success_rate": float,
            "latency_ms": (int, type(None)),
            "reasons": {OTHER: int},
        }
    }
}
ADDED: Mapping[str, Mapping[str, Any]] = {
    "info with crawlid": {
        "state": str,
        "run": int,
        "admitted": int,
        "pending": int,
        "spilled": int,
        "in_flight": int,
        "held_back": BY_REASON,
        "done": int,
        "redirected": int,
        "failed": BY_REASON,
        "skipped": BY_REASON,
        "filtered": BY_REASON,
        "charged": {OTHER: str},
        "started": int,
        "last_activity": int,
        "remember": (int, type(None)),
        "counted": int,
    },
    "spider": DOMAINS,
    "crawler": DOMAINS,
    "all": {"crawler": {"spiders": SPIDERS, "machines": MACHINES, "queue": QUEUES, **DOMAINS}},
    "unknown crawl": {**KEPT["info with crawlid"], "state": str},
    "stop refused": {**KEPT["stop"], "error": str},
    "pause": {**ACTION, "run": int},
    "resume": {**ACTION, "run": int},
    "reprioritize": {**ACTION, "run": int, "priority": int},
    "pause refused": {**ACTION, "error": str},
    "zookeeper refused": {**KEPT["zookeeper"], "error": str},
    "accepted": {**ACTION, "run": int},
    "rejected": {
        "action": str,
        "uuid": str,
        "appid": str,
        "crawlid": str,
        "reason": str,
        "errors": [str],
        "server_time": int,
    },
}

ROWS = {
    "info without crawlid": "`info` without `crawlid`",
    "info with crawlid": "`info` with `crawlid`",
    "unknown crawl": "`info` with `crawlid`",
    "stop refused": "`stop`",
    "pause": "`pause`, `resume`, `reprioritize`",
    "resume": "`pause`, `resume`, `reprioritize`",
    "reprioritize": "`pause`, `resume`, `reprioritize`",
    "pause refused": "`pause`, `resume`, `reprioritize`",
    "zookeeper": "zookeeper",
    "zookeeper refused": "zookeeper",
}
"""Name of a reply in docs/wire.md, if it is not the name in code."""


def problems(shape: Any, value: Any, path: str = "$") -> Iterator[str]:
    """Where a value has not the shape."""
    if shape is Count:
        shape = dict.fromkeys((f"{window}?" for window in WINDOWS), int)
    if isinstance(shape, list) and isinstance(value, list):
        for number, item in enumerate(value):
            yield from problems(shape[0], item, f"{path}[{number}]")
    elif isinstance(shape, Mapping) and isinstance(value, dict):
        yield from problems_of_object(shape, value, path)
    elif type(value) not in (shape if isinstance(shape, tuple) else (shape,)):
        yield f"{path} is {value!r}, not {shape}"


def problems_of_object(
    shape: Mapping[str, Any], value: Mapping[str, Any], path: str
) -> Iterator[str]:
    """Where keys are missing, unheard of, or have other values."""
    named = {name.rstrip("?"): inner for name, inner in shape.items() if name != OTHER}
    required = {name for name in shape if name != OTHER and not name.endswith("?")}
    yield from (f"{path}.{name} is missing" for name in required - value.keys())
    for name, item in value.items():
        if name in named or OTHER in shape:
            yield from problems(named.get(name, shape.get(OTHER)), item, f"{path}.{name}")
        else:
            yield f"{path}.{name} is unheard of"


def documented(kind: str) -> set[str]:
    """Return the names in the row of docs/wire.md for a kind of reply."""
    title = ROWS.get(kind, f"`{kind}`")
    replies = PAGE.read_text().partition("\n## Replies\n")[2].partition("\n## ")[0]
    rows = [row for row in replies.splitlines() if row.startswith("| ") and title in row[:80]]
    return set(re.findall(r"`([a-z_-]+)`", " ".join(rows)))


def check(kind: str, reply: Mapping[str, Any]) -> None:
    """A reply has the keys and types of its kind, and docs/wire.md has each key."""
    shape = {**KEPT.get(kind, {}), **ADDED.get(kind, {})}
    assert not list(problems(shape, reply)), (kind, reply)
    told = documented(kind) | ({*ASKED, "stats"} if "stats" in reply else set())
    assert reply.keys() <= told, (kind, reply.keys() - told)


Ask = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def ask(witness: Witness) -> Ask:
    """Feed a request of one application and wait for its reply."""

    async def ask(**request: Any) -> dict[str, Any]:
        return await witness.answered(witness.feed_request(**{"appid": APP, **request}))

    return ask


async def test_replies_about_crawls(
    serve: Serve, witness: Witness, ask: Ask, cluster: Cluster, wait_until: WaitUntil
) -> None:
    """The info of an application and of a crawl, stop, pause, resume, reprioritize, accepted."""
    async with serve(hosts=1, pages=12) as served:
        await cluster.throttle("set", served.web.hosts[0], "--hits", "1", "--window", "5")
        name = {"spiderid": "link", "crawlid": f"slow-{served.web.port}"}
        later = int(time.time()) + 3600
        seed = {"url": served.web.seed_url, "maxdepth": 9, "expires": later, "priority": 50}
        accepted = await ask(**name, **seed)
        check("accepted", accepted)
        await wait_until(lambda: len(witness.results(name["crawlid"])) > 0)

        crawl = await ask(action="info", **name)
        check("info with crawlid", crawl)
        assert (crawl["expires"], crawl["run"]) == (str(later), accepted["run"])
        of_app = await ask(action="info", spiderid="link")
        check("info without crawlid", of_app)
        assert of_app["crawlids"][name["crawlid"]]["expires"] == later
        for verb in ("pause", "resume", "reprioritize"):
            told = await ask(action=verb, priority=60, **name)
            check(verb, told)
            assert told["action"] == verb
        queue = await ask(stats="queue")
        check("queue", queue)
        assert queue["queues"]["queue_link"]["spider_backlog"] > 0
        stopped = await ask(action="stop", **name)
        check("stop", stopped)
        assert stopped["total_purged"] > 0
        await witness.ended(name["crawlid"])


async def test_replies_to_requests_that_change_nothing(ask: Ask) -> None:
    """An unknown crawl, a bad rule, a request that fits no kind: each says so in its shape."""
    nobody = {"spiderid": "link", "crawlid": "never-was"}
    check("unknown crawl", await ask(action="info", **nobody))
    check("stop refused", await ask(action="stop", **nobody))
    check("pause refused", await ask(action="pause", **nobody))
    check("zookeeper refused", await ask(action="domain-update", domain="a.example"))
    check("rejected", await ask(crawlid="c", url="http://a.example/", nonsense=True))


async def test_replies_about_rules(ask: Ask) -> None:
    """The four edits have one shape."""
    rule = {"domain": "replies.example", "hits": 10, "window": 60}
    for edit in ("domain-update", "domain-remove", "blacklist-update", "blacklist-remove"):
        fields = rule if edit == "domain-update" else {"domain": rule["domain"]}
        told = await ask(action=edit, **fields)
        check("zookeeper", told)
        assert told["action"] == edit


async def test_replies_about_counters(
    serve: Serve, witness: Witness, ask: Ask, wait_until: WaitUntil
) -> None:
    """All eight kinds of stats, with counts of a crawl that was just done; expired, unasked."""
    async with serve(hosts=1, pages=5, slow_pages=0) as served:
        name = {"appid": APP, "spiderid": "link", "crawlid": f"counted-{served.web.port}"}
        witness.feed({"url": served.web.seed_url, "maxdepth": 9, **name})
        await witness.ended(name["crawlid"])
        late = f"late-{served.web.port}"
        witness.feed({"url": served.web.seed_url, **name, "crawlid": late, "expires": 1})
        await witness.ended(late)
    await ask(action="blacklist-remove", domain="replies.example")
    (expired,) = await wait_until(lambda: witness.records("outbound_firehose", crawlid=late))
    check("expired", expired.value)

    async def everything() -> dict[str, Any] | None:
        told = await ask()
        handlers = {"ScraperHandler", "ActionHandler", "StatsHandler", "ZookeeperHandler"}
        answerers = {"InfoMonitor", "StatsMonitor", "ZookeeperMonitor", "ExpireMonitor"}
        is_counted = (
            told["kafka-monitor"].get("plugins", {}).keys() >= handlers
            and told["redis-monitor"].get("plugins", {}).keys() >= answerers
            and "200" in told["crawler"]["spiders"].get("link", {})
        )
        return told if is_counted else None

    await ask(action="info", spiderid="link")
    check("all", await wait_until(everything))
    for kind in ("kafka-monitor", "redis-monitor", "rest", "spider", "machine", "crawler"):
        told = await ask(stats=kind)
        check(kind, told)
        assert told["stats"] == kind
    assert told["spiders"]["link"]["200"]["lifetime"] >= 5
    assert told["machines"]["count"] == 1
