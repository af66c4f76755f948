"""Proxies that are out or rest: by the outcomes of requests, and for how long."""

from __future__ import annotations

import pytest

from crawling.egress.local_book import FAILURES, LocalBook
from crawlstream_frontier.proxy_reports import ProxyNews
from support.crawler.leases import Clock


@pytest.fixture
def clock() -> Clock:
    """Seconds that the test moves."""
    return Clock()


@pytest.fixture
def book(clock: Clock) -> LocalBook:
    """A book that knows nothing, but which proxies there are."""
    book = LocalBook(clock)
    book.keep(frozenset({"p", "q", "r", "p-10"}))
    return book


def test_failures_in_a_row_put_a_proxy_out_and_a_success_in_between_does_not(
    book: LocalBook, clock: Clock
) -> None:
    """Puts a proxy out after failures in a row, for 30 s at most, then tries single requests."""
    for _ in range(FAILURES - 1):
        book.failed("p")
    book.came_through("p", "a")
    for _ in range(FAILURES - 1):
        book.failed("p")
    assert book.is_fit("p", "a")
    book.failed("p")
    assert not book.is_fit("p", "a")
    assert 0 < book.out_until("p") - clock.now <= 30
    clock.now += 30
    assert book.is_fit("p", "a")
    book.busy["p"] += 1
    assert not book.is_fit("p", "b")
    book.came_through("p", "a")
    assert book.is_fit("p", "b")


def test_a_proxy_that_fails_its_trial_is_out_for_twice_as_long_up_to_an_hour(
    book: LocalBook, clock: Clock
) -> None:
    """A single failure is enough there; a wrong password is at once."""
    spans: list[float] = []
    for _ in range(12):
        book.failed("p", at_once=not spans)
        spans.append(book.out_until("p") - clock.now)
        clock.now = book.out_until("p")
    for number, span in enumerate(spans):
        assert 0 < span <= min(30 * 2**number, 3600)
    assert max(spans) > 30
    book.came_through("p", "a")
    book.failed("p", at_once=True)
    assert book.out_until("p") - clock.now <= 30


def test_a_proxy_rests_for_a_site_and_for_no_other(book: LocalBook, clock: Clock) -> None:
    """Longer each time that it finds no way there, up to what its pool says."""
    book.rest("p", "a", 300)
    assert (book.is_fit("p", "a"), book.is_fit("p", "b"), book.rests("p", "a")) == (
        False,
        True,
        True,
    )
    clock.now += 300
    assert book.is_fit("p", "a")
    spans: list[float] = []
    for _ in range(5):
        book.found_no_way("q", "a", most_rest_s=300)
        spans.append(book.fit_at("q", "a") - clock.now)
    assert spans == [60, 120, 240, 300, 300]
    book.came_through("q", "a")
    assert book.is_fit("q", "a")
    book.found_no_way("q", "a", most_rest_s=0)
    assert book.is_fit("q", "a")


def test_a_proxy_that_comes_through_nowhere_is_out(book: LocalBook) -> None:
    """A mute one differs from a silent site by that; many pages of one site are one site."""
    for number in range(20):
        book.found_no_way("p", f"site{number % (FAILURES - 1)}", most_rest_s=0)
    assert book.out_until("p") == 0
    book.found_no_way("p", "another", most_rest_s=0)
    assert book.out_until("p") > 0


def test_a_site_is_silent_for_proxies_that_work_elsewhere_only(
    book: LocalBook, clock: Clock
) -> None:
    """Three of them, or all that there are; lately; and until the cluster has it."""
    for proxy in ("p", "q", "r"):
        book.found_no_way(proxy, "a", most_rest_s=0)
    assert not book.is_silent("a", of=3)
    for proxy in ("p", "q"):
        book.came_through(proxy, "b")
        book.found_no_way(proxy, "a", most_rest_s=0)
    assert (book.is_silent("a", of=2), book.is_silent("a", of=9)) == (True, False)
    book.came_through("r", "b")
    clock.now += 61
    book.found_no_way("r", "a", most_rest_s=0)
    assert not book.is_silent("a", of=9)
    book.came_through("r", "b")
    book.found_no_way("r", "a", most_rest_s=0)
    assert book.is_silent("a", of=9)
    book.came_through("p", "a")
    assert not book.is_silent("a", of=1)


def test_a_proxy_that_the_table_drops_is_forgotten(book: LocalBook) -> None:
    """Forgets a dropped proxy, which belongs to no worker when it comes back."""
    for proxy in ("p", "q"):
        book.failed(proxy, at_once=True)
    book.keep(frozenset({"q"}))
    assert book.is_fit("p", "a")
    assert not book.is_fit("q", "a")


def test_what_the_cluster_knows_holds_here_too(book: LocalBook, clock: Clock) -> None:
    """Out and back, rests and bans with their ends, silent sites; nothing of unknown proxies."""
    book.receive(ProxyNews("o", "p", "*", 20, 3))
    book.receive(ProxyNews("o", "unknown", "*", 20, 3))
    assert (book.out_until("p"), book.out_until("unknown")) == (clock.now + 20, 0)
    clock.now += 20
    assert book.is_fit("p", "a")
    book.failed("p")
    assert not book.is_fit("p", "a")
    book.receive(ProxyNews("o", "p", "*", -5, 0))
    book.failed("p")
    assert book.is_fit("p", "a")
    book.receive(ProxyNews("r", "p", "a", 9, 2))
    assert (book.is_fit("p", "a"), book.is_fit("p", "b")) == (False, True)
    book.found_no_way("p", "a", most_rest_s=10_000)
    assert book.fit_at("p", "a") - clock.now == 60 * 2**3
    book.receive(ProxyNews("r", "p", "a", -1, 0))
    assert book.is_fit("p", "a")
    book.came_through("p", "a")
    for site, other in (("a", "b"), ("*", "c")):
        book.receive(ProxyNews("b", "q", site, 9, 0))
        book.came_through("q", site)
        assert not book.is_fit("q", "a")
        assert book.rests("q", "a")
        assert book.is_fit("q", other) == (site == "a")
        book.receive(ProxyNews("b", "q", site, -1, 0))
        assert book.is_fit("q", "a")
    for proxy in ("p", "q", "r"):
        assert not book.is_silent("a", of=3)
        book.receive(ProxyNews("s", proxy, "a", 0, 0))
    assert book.is_silent("a", of=3)
    book.receive(ProxyNews("a", "p", "a", 0, 0))
    assert not book.is_silent("a", of=3)


def test_workers_try_a_proxy_that_was_out_one_after_the_other(
    book: LocalBook, clock: Clock
) -> None:
    """A second apart, each at a turn of its own; ten seconds at most."""
    turns = []
    book.workers = 4
    for book.place in range(4):
        book.receive(ProxyNews("o", "p-10", "*", 20, 1))
        turns.append(book.out_until("p-10") - clock.now - 20)
    assert sorted(turns) == [0, 1, 2, 3]
    book.workers, book.place = 1000, 900
    book.receive(ProxyNews("o", "p-10", "*", 20, 1))
    assert book.out_until("p-10") - clock.now - 20 == 10
