"""Words about a crawl that makes no progress or has fetched nothing: the same everywhere."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.words.condition import absence, badge, pace, problem, waits_for
from crawlstream.wire import views

_ZERO: dict[str, Any] = dict.fromkeys(
    (
        *("run", "started_at", "last_activity", "expires", "admitted", "queued", "delayed"),
        *("held", "done", "failed", "redirected", "stopped", "expired"),
    ),
    0,
)
RUNNING = CrawlState(crawl=CrawlKey("lnik", "app", "1"), state="running", **_ZERO)
WAITING = replace(RUNNING, queued=2_000)


def test_a_crawl_of_a_misspelt_spider_names_those_that_run() -> None:
    """A similar name may be meant; while the running ones are not known, nothing is claimed."""
    spiders = {"link", "shop", ""}
    assert badge(WAITING, spiders) == "waiting: no crawler of lnik"
    assert list(waits_for(WAITING, spiders)) == ["lnik"]
    assert problem(WAITING, spiders) == (
        "No crawler of spider lnik is running (running: link, shop; did you mean link?), so 2,000"
        " pages wait"
    )
    assert absence("x", spiders=()) == "No crawler of spider x is running (running: none)"
    view = views.crawl(WAITING, spiders)
    assert view["waits_for"] == ["lnik"]
    for spiders_known in (None, {"lnik"}):
        view = views.crawl(WAITING, spiders_known)
        assert (view["problem"], view["waits_for"]) == (None, [])


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"failed": 3, "failed_by_reason": {"dns": 1, "refused": 2}}, " (refused 2, dns 1)"),
        ({"redirected": 1, "filtered_by_reason": {"domain": 1}}, " (domain 1)"),
        ({}, ""),
    ],
)
def test_a_crawl_that_has_fetched_nothing_is_not_merely_finished(
    changes: dict[str, Any], shown: str
) -> None:
    """The reasons are named; a crawl with a page, a stopped and a running one have none."""
    one = replace(RUNNING, state="finished", **changes)
    assert badge(one, None) == f"finished: nothing fetched{shown}"
    assert problem(one, None) == f"No page was fetched{shown}"
    assert views.crawl(one)["problem"] == f"No page was fetched{shown}"
    for other in (replace(one, done=1), replace(one, state="stopped"), replace(one, held=1)):
        state = replace(other, state="running") if other.held else other
        assert badge(state, None) == state.state
        assert problem(state, None) == ""


def test_a_crawl_whose_domains_are_blocked_says_so() -> None:
    """No other page of it may wait."""
    blocked = DomainBacklog("a.example", 2_000, 1, 1, is_blocked=True)
    assert problem(replace(WAITING, domains=[blocked]), {"lnik"}).startswith("Nothing is fetched")
    assert problem(replace(WAITING, queued=2_001, domains=[blocked]), {"lnik"}) == ""


def test_the_pace_says_how_long_the_rest_takes() -> None:
    """It needs pages to judge by, a rest, and a run that goes on."""
    assert pace(300, left=100, took_s=600, idle_s=190) == "0.50 pages/s, about 3 min left"
    assert pace(300, left=0, took_s=600, idle_s=9) == "0.50 pages/s"
    assert pace(0, left=9, took_s=600, idle_s=9) == "no page yet"
    assert pace(300, left=1, took_s=600, idle_s=20) == "0.50 pages/s, about 2 s left"
    assert pace(300, left=1, took_s=600, idle_s=90) == "0.50 pages/s so far, none for 1 min"
