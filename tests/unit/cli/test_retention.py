"""Crawls that Kafka may forget before they end are named, and no others."""

from __future__ import annotations

import pytest

from crawlstream.bus.history import PartitionOffsets
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.run_marks import RUNNING, RunMark
from crawlstream_cli.common.retention import DAY_MS, RetentionFacts, warnings_of

CRAWL = CrawlKey("link", "app", "long")
NOW_MS = 100 * DAY_MS


def warned(*, first: int, oldest: int, age_days: float, kept_days: float = 14) -> list[str]:
    """The warnings about one run in a partition that ends at 1 000."""
    mark = RunMark(crawl=CRAWL, state=RUNNING, run=1, positions={"uuid:0": first})
    known = RetentionFacts(
        marks={CRAWL: mark},
        begun_ms={CRAWL: int(NOW_MS - age_days * DAY_MS)},
        partitions={0: PartitionOffsets(oldest, 1_000, 900)},
        retention_ms=int(kept_days * DAY_MS),
    )
    return list(warnings_of(known, now_ms=NOW_MS))


@pytest.mark.parametrize(
    ("first", "oldest", "age_days", "words"),
    [
        (99, 100, 1, "has deleted records"),
        (150, 100, 1, "will soon delete"),
        (900, 100, 8, "for 8.0 days, and Kafka deletes its seeds after 14.0 days"),
    ],
)
def test_a_crawl_in_danger_is_named(first: int, oldest: int, age_days: float, words: str) -> None:
    """Its seeds are gone, go soon, or will not be kept for as long again as it took so far."""
    (warning,) = warned(first=first, oldest=oldest, age_days=age_days)
    assert "crawl long of app" in warning
    assert words in warning


def test_a_young_crawl_is_no_reason_to_warn() -> None:
    """Warns neither of a young crawl, nor where Kafka has deleted nothing."""
    assert not warned(first=900, oldest=100, age_days=6)
    assert not warned(first=0, oldest=0, age_days=6)
    assert not warned(first=900, oldest=100, age_days=60, kept_days=-1 / DAY_MS)
