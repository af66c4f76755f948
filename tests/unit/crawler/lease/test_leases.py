"""Holds: what a process has under way, and what it owes the frontier."""

from __future__ import annotations

from typing import Any

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import FENCE_S
from crawling.lease.leases import START_BY_S, Leases
from crawling.lease.slots import SLOW_S
from crawling.page.page import Page, Phase
from crawlstream.model.crawl import Entry
from crawlstream.model.effects import Links, Outcome, Release, Requeue, SentRequest, Settle
from crawlstream.model.throttle_table import Heard, Reaction
from support.crawler.holds import Clock, hold


@pytest.fixture
def clock() -> Clock:
    """Starts at 100 s."""
    return Clock()


@pytest.fixture
def holds(clock: Clock) -> Leases:
    """A process with four slots."""
    return Leases(4, lambda: None, clock)


def departed(holds: Leases, number: int = 1, **changes: Any) -> Page:
    """A page whose request has left."""
    page = holds.admit(hold(number, **changes))
    holds.set_out(page, page.hold.entry.url)
    holds.heard(0, page.admitted_at, 1)
    holds.depart(page)
    holds.departed(page)
    return page


def test_a_slot_is_free_again_when_its_response_is_there(holds: Leases) -> None:
    """Unsent and sent pages occupy slots; parsing and publishing do not."""
    pages = [departed(holds, n) for n in range(4)]
    assert holds.room() == 0
    holds.receive(pages[0])
    assert holds.room() == 1
    holds.settle(pages[0], Outcome.DONE, "2xx")
    assert holds.room() == 1


def test_a_slow_download_gives_its_slot_to_another(holds: Leases, clock: Clock) -> None:
    """Four may be slow without a slot, and twelve at most; each still counts as a hold."""
    for number in range(4):
        departed(holds, number)
    assert (holds.room(), holds.slots.are_idle) == (0, False)
    for taken in (8, 12):
        clock.now += SLOW_S
        assert (holds.room(), holds.slots.are_idle) == (4, True)
        pages = [departed(holds, number, issued_at=clock.now) for number in range(taken - 4, taken)]
        assert holds.room() == 0
    clock.now += SLOW_S
    assert holds.room() == 4
    holds.receive(pages[0])
    assert holds.room() == 4, "it took no slot, so it frees none"
    for number in range(12, 16):
        departed(holds, number, issued_at=clock.now)
    clock.now += SLOW_S
    assert holds.room() == 0, "no more holds than four times the slots"


def test_a_host_that_is_not_reached_gives_its_slot_to_another(holds: Leases, clock: Clock) -> None:
    """From the moment its page set out, and the moment is known beforehand."""
    pages = [holds.admit(hold(number)) for number in range(4)]
    assert holds.room_at() == clock.now + SLOW_S, "none has set out, so no sooner than this"
    holds.set_out(pages[0], pages[0].hold.entry.url)
    clock.now += 0.05
    for page in pages[1:]:
        holds.set_out(page, page.hold.entry.url)
    assert (holds.room(), holds.room_at()) == (0, 100 + SLOW_S)
    clock.now = 100 + SLOW_S
    assert holds.room() == 1
    clock.now += 0.05
    assert holds.room() == 4
    holds.heard(0, clock.now, 1)
    holds.depart(pages[0])
    holds.receive(pages[0])
    assert holds.room() == 4, "it took no slot, so it frees none"


def test_open_holds_are_bounded_however_fast_the_downloads(holds: Leases) -> None:
    """Pages that wait for Kafka stop the leasing at four times the slots."""
    for number in range(16):
        holds.receive(departed(holds, number))
    assert holds.room() == 0


def test_a_request_sets_out_within_half_a_second_of_its_grant(holds: Leases, clock: Clock) -> None:
    """Later, its grant has expired."""
    early, late = holds.admit(hold(1)), holds.admit(hold(2))
    clock.now += START_BY_S
    holds.set_out(early, early.hold.entry.url)
    clock.now += 0.001
    with pytest.raises(GrantExpired):
        holds.set_out(late, late.hold.entry.url)


def test_fewer_wait_where_grants_expire_and_more_where_they_do_not(clock: Clock) -> None:
    """A process leases what it can send in time: half as much after a delay, growing again."""
    holds = Leases(64, lambda: None, clock)
    first = holds.room()
    late = [holds.admit(hold(n)) for n in range(first)]
    assert holds.room() == 0
    clock.now += START_BY_S + 0.1
    for page in late:
        with pytest.raises(GrantExpired):
            holds.set_out(page, page.hold.entry.url)
        holds.release(page)
    assert holds.room() == first // 2
    for number in range(100, 400):
        page = holds.admit(hold(number, issued_at=clock.now))
        holds.set_out(page, page.hold.entry.url)
        holds.heard(0, clock.now, 1)
        holds.depart(page)
        holds.settle(page, Outcome.DONE, "2xx")
        holds.told(0, holds.of(0).take_owed(), ())
    assert holds.room() == 64


def test_fewer_wait_before_any_grant_expires(clock: Clock) -> None:
    """Where holds wait long in this process, fewer are leased; how far Redis is does not matter."""
    holds = Leases(64, lambda: None, clock)
    first = holds.room()
    for number in range(100):
        page = holds.admit(hold(number, issued_at=clock.now - 0.2))
        clock.now += 0.2
        holds.set_out(page, page.hold.entry.url)
        holds.heard(0, clock.now, 1)
        holds.depart(page)
        holds.settle(page, Outcome.DONE, "2xx")
        holds.told(0, holds.of(0).take_owed(), ())
    assert holds.room() == 1
    for number in range(100, 200):
        page = holds.admit(hold(number, issued_at=clock.now - 0.2))
        holds.set_out(page, page.hold.entry.url)
        holds.depart(page)
        holds.settle(page, Outcome.DONE, "2xx")
        holds.told(0, holds.of(0).take_owed(), ())
    assert holds.room() > first


def test_nothing_leaves_without_word_from_redis(holds: Leases, clock: Clock) -> None:
    """At 25 s of silence the worker stops sending; at 30 s its holds go to others."""
    holds.heard(0, clock.now, 1)
    clock.now += FENCE_S
    page = holds.admit(hold(issued_at=clock.now))
    with pytest.raises(GrantExpired):
        holds.set_out(page, page.hold.entry.url)
    holds.heard(0, clock.now - 1, 1)
    holds.set_out(page, page.hold.entry.url)


def test_a_connection_that_came_while_the_process_was_frozen_is_not_written_to(
    holds: Leases, clock: Clock
) -> None:
    """Even if Redis is heard of first: by then the hold may be another worker's."""
    soon, late = holds.admit(hold(1)), holds.admit(hold(2))
    holds.set_out(soon, soon.hold.entry.url)
    holds.set_out(late, late.hold.entry.url)
    clock.now += START_BY_S + 1
    holds.heard(0, clock.now, 1)
    holds.depart(soon)
    clock.now += FENCE_S
    holds.heard(0, clock.now, 1)
    with pytest.raises(GrantExpired):
        holds.depart(late)


def test_departures_are_reported_once_and_responses_free_the_domain(
    holds: Leases, clock: Clock
) -> None:
    """The time since the grant is the departure's, whenever it is told."""
    page = holds.admit(hold())
    clock.now += 0.5
    holds.set_out(page, page.hold.entry.url)
    holds.depart(page)
    holds.departed(page)
    (sent,) = holds.of(0).take_owed().sent
    assert (sent.after_ms, sent.received) == (501, False)
    clock.now += 1
    holds.receive(page)
    (sent,) = holds.of(0).take_owed().sent
    assert (sent.after_ms, sent.received) == (501, True)
    assert page.latency_ms == 1000


def test_a_departure_that_cannot_be_seen_is_reported_with_its_response(
    holds: Leases, clock: Clock
) -> None:
    """Behind a TLS handshake the frontier is told the latest possible moment."""
    page = holds.admit(hold())
    holds.set_out(page, page.hold.entry.url)
    holds.depart(page)
    assert not holds.of(0).owes
    clock.now += 0.25
    holds.receive(page)
    (sent,) = holds.of(0).take_owed().sent
    assert (sent.after_ms, sent.received) == (251, True)


def test_an_end_carries_the_departure_that_was_not_told_yet(holds: Leases) -> None:
    """A page that ends at once is told in one word."""
    page = departed(holds)
    holds.receive(page)
    holds.settle(page, Outcome.DONE, "2xx")
    owed = holds.of(0).take_owed()
    assert not owed.sent
    assert owed.settles[0].sent_ms == 1


def test_a_page_ends_once(holds: Leases) -> None:
    """Whatever happens to it afterwards changes nothing."""
    page = departed(holds)
    holds.requeue(page, 1000)
    holds.settle(page, Outcome.FAILED, "dns")
    holds.release(page)
    assert [type(end) for end in holds.of(0).take_owed().ends] == [Requeue]


def test_what_is_unsent_can_be_given_back(holds: Leases) -> None:
    """Requests that are on the wire stay."""
    departed(holds, 1)
    waiting, connecting = holds.admit(hold(2)), holds.admit(hold(3))
    holds.set_out(connecting, connecting.hold.entry.url)
    holds.release_unsent()
    assert [end.token for end in holds.of(0).take_owed().ends] == ["1-2", "1-3"]
    with pytest.raises(GrantExpired):
        holds.set_out(waiting, waiting.hold.entry.url)
    with pytest.raises(GrantExpired):
        holds.depart(connecting)


def test_an_end_is_alive_until_it_is_told(holds: Leases) -> None:
    """Reconciling must not give back what is about to be settled."""
    page = departed(holds)
    holds.settle(page, Outcome.DONE, "2xx")
    owed = holds.of(0).take_owed()
    assert holds.of(0).alive() == ["1-1"]
    assert holds.told(0, owed, ()) == []
    assert holds.of(0).alive() == []
    assert holds.by_id(page.id) is None


def test_a_stale_hold_is_dropped_quietly(holds: Leases) -> None:
    """What the frontier does not know any more is settled by nobody here."""
    page, other = departed(holds, 1), departed(holds, 2)
    assert holds.told(0, holds.of(0).take_owed(), {"1-1"}) == [page]
    assert page.phase is Phase.STALE
    holds.settle(page, Outcome.DONE, "2xx")
    assert not holds.of(0).owes
    assert holds.of(0).alive() == [other.token]
    assert holds.room() == 3


def test_an_exchange_is_bounded() -> None:
    """At most 200 ends and 1 000 links, but a huge page goes alone."""
    roomy = Leases(400, lambda: None)
    for number in range(250):
        page = roomy.admit(hold(number))
        group = Links(domain="a", priority=1)
        group.entries = [b""] * (5000 if number == 0 else 10)
        page.links = [group]
        roomy.settle(page, Outcome.DONE, "2xx")
    sizes = []
    while roomy.of(0).owes:
        sizes.append(len(list(roomy.of(0).take_owed().ends)))
    assert sizes[0] == 1
    assert sizes[1] == 100
    assert sum(sizes) == 250


def test_every_kind_of_end_reaches_the_frontier(holds: Leases) -> None:
    """Settle, requeue and release, with what belongs to each."""
    first, second, third, buyer = (holds.admit(hold(n)) for n in range(4))
    first.filtered["domain"] += 2
    first.body_bytes = 7
    holds.settle(first, Outcome.REDIRECTED, "")
    holds.requeue(second, 500)
    holds.release(third, delay_ms=9)
    holds.release_buyer(buyer, crawl_delay_ms=5)
    owed = holds.of(0).take_owed()
    assert list(owed.ends) == [
        Settle(
            token="1-0",
            outcome=Outcome.REDIRECTED,
            reason="",
            filtered={"domain": 2},
            body_bytes=7,
        ),
        Requeue(token="1-1", delay_ms=500),
        Release(token="1-2", delay_ms=9),
        Release(token="1-3", robots=True, crawl_delay_ms=5),
    ]


@pytest.mark.parametrize(
    ("reaction", "outcome", "is_told"),
    [
        (Reaction.ANSWER, Outcome.DONE, False),
        (Reaction.ANSWER, Outcome.FAILED, True),
        (Reaction.REFUSAL, Outcome.DONE, True),
        (Reaction.SILENCE, Outcome.FAILED, True),
    ],
)
def test_how_a_site_reacted_is_told_with_the_end_at_the_latest(
    *, holds: Leases, reaction: Reaction, outcome: Outcome, is_told: bool
) -> None:
    """Only a result, which tells of an answer by itself, makes the report needless."""
    page = departed(holds, 1)
    heard = Heard(reaction, wait_ms=7)
    holds.receive(page, heard)
    holds.settle(page, outcome, "")
    owed = holds.of(0).take_owed()
    expected = [SentRequest(page.token, 1, received=True, heard=heard)] if is_told else []
    assert list(owed.sent) == expected
    assert len(list(owed.ends)) == 1


def test_a_connection_that_did_not_come_about_is_told(holds: Leases) -> None:
    """The site was asked, though no request was written."""
    page = holds.admit(hold(1))
    holds.set_out(page, page.hold.entry.url)
    heard = Heard(Reaction.SILENCE)
    holds.receive(page, heard)
    holds.requeue(page, 500)
    owed = holds.of(0).take_owed()
    assert list(owed.sent) == [SentRequest(page.token, 1, received=True, heard=heard)]
    assert list(owed.requeues) == [Requeue(token=page.token, delay_ms=500, sent_ms=1)]


def test_an_entry_that_cannot_be_crawled_is_held_all_the_same(holds: Leases) -> None:
    """It fails by name later; it must not break the worker that leases it."""
    first, second = (
        holds.admit(hold(n, entry=Entry(url=f"gopher://a.example/{n}"))) for n in range(2)
    )
    assert first.id != second.id


def test_the_same_entry_has_the_same_id_whoever_holds_it(holds: Leases) -> None:
    """Retries, replays and other workers publish under one key."""
    first = holds.admit(hold(1, entry=Entry(url="http://a.example/x")))
    again = Leases(1, lambda: None).admit(hold(9, entry=Entry(url="http://a.example/x"), retries=2))
    seed = holds.admit(hold(3, entry=Entry(url="http://a.example/x", origin="t-0-1")))
    assert first.id == again.id != seed.id


def test_a_domain_whose_pages_are_dear_rests(holds: Leases) -> None:
    """Its next pages are given back until the others have had as much; those of others are not."""
    for number, domain, cpu_s in ((1, "b.example", 0.005), (2, "a.example", 2.0)):
        page = departed(holds, number, domain=domain)
        page.cpu_s = cpu_s
        holds.settle(page, Outcome.DONE, "2xx")
    holds.of(0).take_owed()
    leased = [holds.admit(hold(3)), holds.admit(hold(4, domain="b.example"))]
    assert holds.rest(leased) == leased[1:]
    assert [release.delay_ms for release in holds.of(0).take_owed().releases] == [2000]


def test_half_of_what_is_in_hand_never_rests(holds: Leases) -> None:
    """Where all domains have had their share there is work all the same; rests are short ones."""
    for number, cpu_s in ((1, 0.005), (2, 40.0), (3, 2.0)):
        page = departed(holds, number, domain=f"{number}.example")
        page.cpu_s = cpu_s
        holds.settle(page, Outcome.DONE, "2xx")
    holds.of(0).take_owed()
    leased = [holds.admit(hold(number, domain=f"{2 + number % 2}.example")) for number in range(4)]
    assert holds.rest(leased) == [leased[1], leased[3]]
    assert [release.delay_ms for release in holds.of(0).take_owed().releases] == [30_000, 30_000]
