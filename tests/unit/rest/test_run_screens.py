"""Schedules on the screen of a crawl's runs."""

from __future__ import annotations

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.recurring.schedule import Schedule
from rest_service.dashboard import runs


@pytest.mark.parametrize(
    ("crawlid", "fed"),
    [("news-20261122T1200Z", 1), ("news-", 0), ("news-20261122T1200Zx", 0), ("x-news-{at}", 0)],
)
def test_a_crawl_knows_the_schedule_that_feeds_it(crawlid: str, fed: int) -> None:
    """Finds the schedule of a crawl by its name, with the time of a firing if there is one."""
    schedule = Schedule(appid="app", name="s", cron="0 3 * * *", crawl={"crawlid": "news-{at}"})
    assert runs.feeds(schedule, CrawlKey("link", "app", crawlid)) == bool(fed)
    assert not runs.feeds(schedule, CrawlKey("link", "other", crawlid))
    assert not runs.feeds(schedule, CrawlKey("shop", "app", crawlid))


def test_a_constant_name_is_no_expression() -> None:
    """A dot in it is a dot."""
    schedule = Schedule(appid="app", name="s", cron="0 3 * * *", crawl={"crawlid": "a.b"})
    assert runs.feeds(schedule, CrawlKey("link", "app", "a.b"))
    assert not runs.feeds(schedule, CrawlKey("link", "app", "axb"))


def test_a_firing_is_compared_with_the_one_before() -> None:
    """Firings may be crawls of their own; a skipped one, or the first, has none before it."""
    firings = [{"crawlid": name} for name in ("c", "", "b", "a")]
    names = {"c": "b", "b": "a", "a": "", "other": ""}
    found = {name: runs._earlier(firings, CrawlKey("link", "app", name)) for name in names}
    assert found == names
