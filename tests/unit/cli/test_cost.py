"""The cost of a million pages."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from crawlstream.errors import ConfigError
from crawlstream_cli.app import run
from crawlstream_cli.common.prices import KINDS, Prices, read_prices
from crawlstream_cli.cost import _shown, cost_of, counted
from rest_service.runs.charges import RunCharges

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


def test_charges_of_sites_are_a_line_of_their_own_and_other_currencies_no_part_of_the_sum() -> None:
    """Amounts of two currencies are never added up."""
    prices = Prices(currency="EUR", per_million_pages={"traffic": 3})
    found = cost_of(prices, {}, 1000, {"EUR": 40.0, "USD": 7.5, "GBP": 0.0})
    assert found.per_million_pages == {"traffic": 3, "charged by sites": 40}
    assert (found.total, found.other_charges) == (43, {"USD": 7.5})
    assert RunCharges(4, {"USD": 30_000}).per_million_pages() == {"USD": 7_500}
    assert not RunCharges(0, {"USD": 30_000}).per_million_pages()


UNKNOWN = "unknown key; allowed are currency, hourly, monthly, per_million_pages"
UNKNOWN_KIND = f"unknown kind of process; allowed are {', '.join(KINDS)}"
NUMBER = "must be a number from 0, such as 0.04"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "currency: EUR\nhourly: {crawlers: 1}",
            f"line 2: hourly.crawlers: {UNKNOWN_KIND}; other costs belong under monthly",
        ),
        ("monthly:\n  redis: -1", f"line 2: monthly.redis: {NUMBER} (got -1)"),
        ("monthly: {redis: dear}", f"line 1: monthly.redis: {NUMBER} (got 'dear')"),
        ("monthly: {redis: .inf}", f"line 1: monthly.redis: {NUMBER} (got inf)"),
        ("monthly: {redis: yes}", f"line 1: monthly.redis: {NUMBER} (got True)"),
        ("monthly: {redis: }", f"line 1: monthly.redis: {NUMBER} (got None)"),
        (
            "weekly: {redis: 1}",
            f"line 1: weekly: {UNKNOWN}",
        ),
        (
            "\ncrawler: 3",
            f"line 2: crawler: {UNKNOWN}; the price of a crawler belongs under hourly",
        ),
        (
            "monthly: {total: 1}",
            "line 1: monthly.total: this name is kept for the sum of all: choose another",
        ),
        (
            "per_million_pages: {all: 1}",
            "line 1: per_million_pages.all: this name is kept for the sum of all: choose another",
        ),
        (
            "monthly:\n  redis: 1\nper_million_pages:\n  redis: 2",
            "line 4: per_million_pages.redis: line 2 has this name: choose another",
        ),
        ("monthly:\n  redis: 1\n  redis: 2", "line 3: monthly.redis: is given twice"),
        (
            "monthly: 3",
            "line 1: monthly: must have names with prices, such as `redis: 60`",
        ),
        ("currency: 3", "line 1: currency: must be a name, such as USD"),
        ("a: b: c", "line 1: this is not YAML: mapping values are not allowed here"),
        (
            "- 1",
            "line 1: the table: must have keys: currency, hourly, monthly, per_million_pages",
        ),
    ],
)
def test_a_wrong_table_is_told_by_line_and_key(text: str, problem: str) -> None:
    """The error lists the allowed items; no item is lost under another's name."""
    with pytest.raises(ConfigError) as refused:
        read_prices(text, "prices.yaml")
    assert str(refused.value) == f"prices.yaml: {problem}"


def test_all_that_is_wrong_is_told_at_once() -> None:
    """A table need not be tried again for each mistake."""
    with pytest.raises(ConfigError, match=r"line 1: .*; line 2: "):
        read_prices("hourly: {crawlers: 1}\nmonthly: {redis: no}", "prices.yaml")


def test_the_example_is_a_whole_table_that_works(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The output of ``--example`` is read back, from a file or a pipe; nothing is left out."""
    assert run(["cost", "--example"]) == 0
    text = capsys.readouterr().out
    prices = read_prices(text, "example")
    assert prices.hourly.keys() == set(KINDS)
    assert prices.monthly
    assert prices.per_million_pages
    monkeypatch.setenv("KAFKA_HOSTS", "127.0.0.1:9")
    monkeypatch.setenv("KAFKA_FEED_TIMEOUT", "0.2")
    monkeypatch.setattr("sys.stdin", StringIO(text))
    assert run(["cost", "-"]) == 1
    assert "Kafka does not answer" in capsys.readouterr().err


def test_without_a_readable_table_a_person_is_told_how_to_get_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 2, before Kafka gets a call."""
    (tmp_path / "latin.yaml").write_bytes(b"currency: \xa3")
    for arguments, said in (
        ([], "`./crawlstream cost --example > prices.yaml` writes one"),
        ([str(tmp_path / "none.yaml")], "none.yaml: No such file or directory"),
        ([str(tmp_path / "latin.yaml")], "latin.yaml: the file is not UTF-8 text"),
    ):
        assert run(["cost", *arguments]) == 2
        assert said in capsys.readouterr().err


def test_the_sum_is_the_last_line_and_called_total() -> None:
    """No item can have its name."""
    found = cost_of(Prices(monthly={"[red]": 73}), {}, 1000)
    out = StringIO()
    Console(file=out, width=80).print(_shown(found))
    _, _, item, last = out.getvalue().splitlines()
    assert item.split() == ["[red]", "0.100", "100.00"]
    assert last.split() == ["total", "0.100", "100.00"]
