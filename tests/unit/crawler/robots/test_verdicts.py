"""Verdicts on pages by robots.txt: whether they are fetched, as what, at which time of day."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.links.scope import OF_THE_CRAWL
from crawling.page.page import Page
from crawling.robots.rules import rules_in
from crawling.robots.verdicts import Permission, Rest, Verdict, Verdicts
from crawlstream.boot.settings import load_settings
from crawlstream.model.crawl import Entry, Profile
from support.crawler.leases import lease

SITE = "http://a.example"
DIRTY = Entry(url=f"{SITE}/p?sid=1&a=1", depth=1)
FILE = b"User-agent: *\nDisallow: /no\nClean-param: sid\nVisit-time: 0100-0200\n"
AT_ONE_S, HOUR_S = 3600, 3600
NO_LIMITS = Profile()
CLEAN: dict[str, Any] = {"clean_param": True}
HOURS: dict[str, Any] = {"visit_time": True}


def judged(
    entry: Entry, *, at_s: float = AT_ONE_S, profile: Profile = NO_LIMITS, **settings: Any
) -> tuple[Verdict, Leases, Page]:
    """Return the verdict on a page at a time of day."""
    leases = Leases(4, lambda: None, time.monotonic)
    leases.of(0).contact.note_answer(time.monotonic(), 1)
    leases.of(0).contact.note_date(int(at_s * 1000))
    page = leases.admit(lease(1, entry=entry, profile=profile, issued_at=time.monotonic()))
    outcomes: Any = SimpleNamespace(
        leases=leases, settings=load_settings(**settings), redirects=OF_THE_CRAWL
    )
    verdicts, rules = Verdicts(outcomes, "oddbot/1.0"), rules_in(FILE)
    assert rules
    return verdicts.judge(page, rules, verdicts.look_up(page, rules)), leases, page


def test_a_link_is_moved_to_its_clean_url_where_the_operator_wants_it() -> None:
    """Keeps its depth, and knows where it came from; it is fetched as it is by default."""
    moved, *_ = judged(DIRTY, **CLEAN)
    assert isinstance(moved, Entry)
    assert (moved.url, moved.depth) == (f"{SITE}/p?a=1", 1)
    assert list(moved.redirect_urls) == [DIRTY.url]
    assert judged(moved, **CLEAN)[0] is Permission.ALLOWED
    assert judged(DIRTY)[0] is Permission.ALLOWED


@pytest.mark.parametrize(
    "changes",
    [
        {"origin": "in-0-1"},
        {"method": "POST", "body": b"x"},
        {"method": "HEAD"},
        {"salt": "v 2026-01-01"},
        {"redirect_urls": (f"{SITE}/p?a=1",)},
        {"redirect_urls": tuple(f"{SITE}/{n}" for n in range(10))},
        {"url": f"{SITE}/p?sid"},
    ],
)
def test_what_somebody_wants_as_it_is_stays(changes: dict[str, Any]) -> None:
    """Fetches seeds, requests of their own, and where a clean URL has led or cannot be followed."""
    entry = replace(DIRTY, **changes)
    verdict = judged(entry, **CLEAN)[0]
    is_clean = entry.url.endswith("?sid")
    assert isinstance(verdict, Entry) if is_clean else verdict is Permission.ALLOWED


def test_a_page_outside_the_scope_of_its_crawl_is_not_moved_to() -> None:
    """Fetches the page itself where a filter would refuse the clean URL."""
    profile = Profile(allow_regex=("sid=",))
    assert judged(DIRTY, profile=profile, **CLEAN)[0] is Permission.ALLOWED


@pytest.mark.parametrize(
    ("at_s", "rest_s"),
    [
        (AT_ONE_S - 1, 1),
        (AT_ONE_S, 0),
        (AT_ONE_S + HOUR_S - 2, 0),
        (AT_ONE_S + HOUR_S - 1, 1),
        (AT_ONE_S + HOUR_S, 23 * HOUR_S),
    ],
)
def test_a_page_waits_for_the_hours_of_its_site(at_s: float, rest_s: float) -> None:
    """Begins on time, ends a second early, and knows no hours by default."""
    verdict = judged(DIRTY, at_s=at_s, **HOURS)[0]
    if rest_s:
        assert isinstance(verdict, Rest)
        assert verdict.seconds == pytest.approx(rest_s, abs=0.5)
    else:
        assert verdict is Permission.ALLOWED
    assert judged(DIRTY, at_s=at_s)[0] is Permission.ALLOWED
    forbidden = replace(DIRTY, url=f"{SITE}/no")
    assert judged(forbidden, at_s=at_s, **HOURS)[0] is Permission.FORBIDDEN


def test_no_request_leaves_after_the_hours_though_its_page_was_let_through() -> None:
    """Gives it back where connecting took too long."""
    _, leases, page = judged(DIRTY, at_s=AT_ONE_S + HOUR_S - 60, **HOURS)
    assert 58 < page.until - time.monotonic() <= 59
    leases.set_out(page, DIRTY.url)
    page.until = time.monotonic()
    with pytest.raises(GrantExpired):
        leases.depart(page)
