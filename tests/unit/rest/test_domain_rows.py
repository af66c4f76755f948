"""States of domains on their screen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import CrawlQueueReport, DomainReport, QueueReport
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.traffic import DomainTraffic
from rest_service.dashboard.domain_rows import DomainRow, limited_by

_RULE = ThrottleRule(hits=1, window_s=1)
_ZERO: dict[str, Any] = dict.fromkeys(
    (
        *("unreported", "under_way", "not_before_ms", "next_ms", "strikes", "silences"),
        *("unanswered_ms", "crawl_delay_ms"),
    ),
    0,
)


def test_a_domain_whose_pages_wait_for_something_is_neither_busy_nor_quiet() -> None:
    """It names the crawler that is missing, or counts the pages of paused crawls, each once."""
    report = DomainReport(domain="a.example", rule=_RULE, queues=[], **_ZERO)
    quiet = DomainRow(name="a.example", source="own", rule=_RULE, report=report)
    shop = CrawlKey("shop", "app", "1")
    bands = [CrawlQueueReport(crawl=shop, standing=1, queued=366)]
    queue = QueueReport(spiderid="shop", place="ready", due_ms=None, bands=1, first=bands)
    waiting = replace(quiet, report=replace(report, queues=[queue]))
    assert replace(waiting, spiders={"link"}).condition == "waiting: no crawler of shop"
    assert (replace(waiting, spiders={"shop"}).condition, waiting.condition) == ("busy", "busy")
    assert waiting.waiting == 366
    for row in (quiet, waiting):
        paused = replace(row, paused={shop: 366})
        assert (paused.condition, paused.waiting) == ("paused: 366 pages", 366)
    assert (quiet.condition, quiet.waiting) == ("quiet", 0)


def test_a_domain_that_fails_is_not_busy() -> None:
    """Marks a domain as failing, with the reason, if most downloads fail; not after one."""
    failing = DomainTraffic(responses=9, success_rate=0, latency_ms=None, reasons={"dns": 9})
    report = DomainReport(domain="a.example", rule=_RULE, queues=[], **_ZERO)
    row = DomainRow("a.example", "own", _RULE, traffic=failing, report=report)
    assert row.condition == "failing: dns"
    few = DomainTraffic(responses=2, success_rate=0, latency_ms=None, reasons={"dns": 2})
    most = DomainTraffic(responses=9, success_rate=0.6, latency_ms=5, reasons={"http_404": 3})
    for traffic in (few, most, None):
        assert replace(row, traffic=traffic).condition == "quiet"
    assert replace(row, source="blacklist").condition == "blocked"


def test_a_domain_whose_pages_wait_says_what_limits_it() -> None:
    """Its rule, robots.txt, refusals or the site itself, and how long the pages take."""
    rule = ThrottleRule(hits=10, window_s=60, concurrency=2)
    report = DomainReport(domain="a.example", rule=rule, queues=[], **_ZERO)
    slow = DomainTraffic(responses=9, success_rate=1, latency_ms=20_000)
    by_rule = "its rule: a request each 6 s; 20 pages in 2 min"
    assert limited_by(rule, report, replace(slow, latency_ms=11_000), 20) == by_rule
    assert limited_by(rule, None, None, 20) == by_rule
    assert limited_by(rule, report, slow, 0) == ""
    site = "the site: 20.0 s for a response, 2 at a time; 20 pages in 3 min"
    assert limited_by(rule, report, slow, 20) == site
    delayed = replace(report, crawl_delay_ms=30_000)
    assert limited_by(rule, delayed, slow, 1).startswith("its robots.txt: 30.0 s between requests")
    gentle = replace(delayed, gentle_ms=40_000)
    assert limited_by(rule, gentle, slow, 2) == (
        "its latency: 40.0 s between requests; 2 pages in 80.0 s"
    )
    assert limited_by(rule, replace(gentle, gentle_ms=9_000), slow, 1).startswith("its robots.txt")
    assert limited_by(rule, replace(delayed, silences=4), slow, 1).startswith("its 4 requests")
    assert limited_by(rule, replace(delayed, strikes=3), slow, 1).startswith("its 3 refusals")
    resting = replace(delayed, silences=2, is_outside_hours=True)
    assert limited_by(rule, resting, slow, 1).endswith("no visits at this time of day (Visit-time)")
    assert limited_by(replace(rule, hits=0), report, slow, 1) == "its rule: nothing is fetched"
