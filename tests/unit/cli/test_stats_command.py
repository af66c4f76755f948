"""Output of ``crawlstream stats`` and ``crawls`` for people."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any

import orjson
import pytest
from rich.console import Console
from rich.table import Table

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.model.words.quantities import ago
from crawlstream_cli.common.times import moment
from crawlstream_cli.crawls import show_crawls
from crawlstream_cli.stats import WINDOWS, StatsKind, tables

COUNT = {"900": 3, "lifetime": 1234}
MONITOR = {
    "total": COUNT,
    "plugins": {"ScraperHandler": COUNT, "PriceHandler": COUNT},
    "nodes": {"host": ["a", "b"]},
}
CRAWLER = {
    "spiders": {"link[/]": {"200": COUNT, "count": 2}, "total_spider_count": 2},
    "machines": {"host": {"404": COUNT}, "count": 1},
    "queue": {
        "queue_link": {
            "spider_backlog": 5,
            "num_domains": 2,
            "domains": [
                {"domain": "small.example", "backlog": 1},
                {"domain": "large.example", "backlog": 4},
            ],
        },
        "total_backlog": 5,
    },
    "domains": {"a.example": {"responses": 9, "success_rate": 0.5, "latency_ms": None}},
}
REPLIES: Mapping[StatsKind, Mapping[str, Any]] = {
    StatsKind.KAFKA_MONITOR: MONITOR,
    StatsKind.REDIS_MONITOR: {"nodes": {}},
    StatsKind.REST: {},
    StatsKind.SPIDER: {"spiders": CRAWLER["spiders"], "domains": CRAWLER["domains"]},
    StatsKind.MACHINE: {"machines": CRAWLER["machines"]},
    StatsKind.QUEUE: {"queues": CRAWLER["queue"]},
    StatsKind.CRAWLER: CRAWLER,
    StatsKind.ALL: {
        "kafka-monitor": MONITOR,
        "redis-monitor": MONITOR,
        "rest": {},
        "crawler": CRAWLER,
    },
}


def shown(table: Table) -> str:
    """A table as it is printed."""
    out = StringIO()
    Console(file=out, width=200).print(table)
    return out.getvalue()


@pytest.mark.parametrize("kind", StatsKind)
def test_every_kind_of_stats_is_shown(kind: StatsKind) -> None:
    """Each part has a table, with what was counted in it."""
    found = "".join(map(shown, tables(kind, REPLIES[kind])))
    words = {
        StatsKind.KAFKA_MONITOR: ["2 running", "  crawl ", "  PriceHandler ", "1,234"],
        StatsKind.REDIS_MONITOR: ["0 running", "requests"],
        StatsKind.REST: ["0 running"],
        StatsKind.SPIDER: ["link[/]: 2 running", "200", "a.example", "50.0%"],
        StatsKind.MACHINE: ["host", "404"],
        StatsKind.QUEUE: ["link: 2 domains", "large.example"],
        StatsKind.CRAWLER: ["link[/]", "404", "large.example", "a.example"],
        StatsKind.ALL: ["kafka-monitor", "redis-monitor", "rest", "404", "large.example"],
    }
    assert [word for word in words[kind] if word not in found] == []


@pytest.mark.parametrize(
    ("counts", "periods"),
    [
        ({"900": 5, "3600": 5, "lifetime": 5}, ["ever"]),
        ({"900": 2, "3600": 5, "lifetime": 5}, ["15 min", "ever"]),
        ({"900": 5, "3600": 5, "21600": 7, "lifetime": 9}, ["15 min", "1 h", "6 h", "ever"]),
        ({}, ["ever"]),
    ],
)
def test_periods_longer_than_anything_was_counted_are_left_out(
    counts: Mapping[str, int], periods: Sequence[str]
) -> None:
    """They would repeat what was counted ever; all parts of a reply have the same columns."""
    full = {window: counts.get(window, counts.get("lifetime", 0)) for window in WINDOWS}
    reply = {**REPLIES[StatsKind.ALL], "kafka-monitor": {"total": full}, "crawler": {}}
    reply["redis-monitor"] = {"total": dict.fromkeys(WINDOWS, 3)}
    monitors = [*tables(StatsKind.ALL, reply)]
    assert [[*map(str, header(table))] for table in monitors] == [periods] * len(monitors)


def header(table: Table) -> Sequence[Any]:
    """The names of the columns that have one."""
    return [column.header for column in table.columns if column.header]


def test_the_longest_queues_come_first() -> None:
    """A person looks for what is stuck."""
    (table,) = tables(StatsKind.QUEUE, REPLIES[StatsKind.QUEUE])
    assert shown(table).index("large.example") < shown(table).index("small.example")


def crawl(**changes: Any) -> CrawlState:
    """A crawl whose name a careless table would take for markup."""
    values: dict[str, Any] = {
        "crawl": CrawlKey("link", "app", "[bold]spring"),
        "run": 2,
        "state": "running",
        "started_at": 1.0,
        "last_activity": 2.0,
        "expires": 0,
        "admitted": 10,
        "queued": 3,
        "delayed": 1,
        "held": 1,
        "done": 4,
        "failed": 1,
        "redirected": 0,
        "stopped": 0,
        "expired": 0,
        "filtered_by_reason": {"duplicate": 7, "depth": 2},
        **changes,
    }
    return CrawlState(**values)


def test_crawls_are_listed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A line a crawl for people, an object a crawl for programs, a sentence where there is none."""
    monkeypatch.setenv("COLUMNS", "200")
    show_crawls([crawl()], {"link"}, as_json=False)
    row = capsys.readouterr().out.splitlines()[1].split()
    assert row[:10] == ["[bold]spring", "app", "link", "2", "running", "4", "1", "4", "1", "9"]
    show_crawls([crawl(state="finished")], None, as_json=True)
    (told,) = orjson.loads(capsys.readouterr().out)
    assert (told["crawlid"], told["pending"], told["residual"]) == ("[bold]spring", 4, 0)
    show_crawls([], None, as_json=False)
    assert capsys.readouterr().out == "No such crawl found.\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-1, "0 s ago"),
        (59, "59 s ago"),
        (119, "1 min ago"),
        (7500, "2 h 5 min ago"),
        (2e5, "2 d 7 h ago"),
    ],
)
def test_spans_are_told_in_the_unit_that_fits(seconds: float, words: str) -> None:
    """Two units at most; seconds only where they matter."""
    assert ago(seconds) == words


def test_a_moment_is_told_in_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shows a moment in local time and how long ago it was, from the next day on with its date."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert moment(0, now=840) == "09:00:00 (14 min ago)"
        assert moment(0, now=15 * 3600 - 1) == "09:00:00 (14 h 59 min ago)"
        assert moment(0, now=15 * 3600) == "1970-01-01 09:00:00 (15 h ago)"
    finally:
        monkeypatch.undo()
        time.tzset()
