"""What a million pages cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.cli.cost import Prices, cost_of, counted, read_prices
from crawlstream.errors import ConfigError

REPLY = {
    "kafka-monitor": {"nodes": {"a": ["1"], "b": ["2"]}},
    "redis-monitor": {"nodes": {"a": ["3"]}},
    "rest": {"nodes": {}},
    "crawler": {
        "spiders": {
            "unique_spider_count": 2,
            "link": {
                "count": 3,
                "200": {"900": 200, "3600": 1000, "lifetime": 9000},
                "206": {"3600": 8},
                "504": {"3600": 50},
            },
            "wandering": {"count": 1, "200": {"3600": 992}},
        }
    },
}


def test_pages_and_processes_are_counted_from_the_reply_to_stats() -> None:
    """Failures are not pages; every spider's crawlers count."""
    running, pages_per_hour = counted(REPLY, 3600)
    assert running == {"kafka-monitor": 2, "redis-monitor": 1, "rest": 0, "crawler": 4}
    assert pages_per_hour == 2000
    assert counted(REPLY, 900)[1] == 800


def test_a_million_pages_cost_their_share_of_all() -> None:
    """Processes by the hour, servers by the month, and what pages bring along."""
    prices = Prices(
        hourly={"crawler": 0.02, "kafka-monitor": 0.01, "rest": 5},
        monthly={"redis": 73},
        per_million_pages={"traffic": 3},
    )
    found = cost_of(prices, {"crawler": 4, "kafka-monitor": 2}, 200_000)
    assert found.per_hour == pytest.approx({"crawler": 0.08, "kafka-monitor": 0.02, "redis": 0.1})
    assert found.total == pytest.approx(5 * 0.2 + 3)
    assert found.per_million_pages["traffic"] == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hourly: {crawlers: 1}", "hourly.crawlers"),
        ("monthly: {redis: -1}", "monthly.redis"),
        ("weekly: {redis: 1}", "weekly"),
        ("hourly: {", "prices.yaml"),
        ("- 1", "prices.yaml"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    """It names the price that is wrong."""
    (tmp_path / "prices.yaml").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_prices(tmp_path / "prices.yaml")
