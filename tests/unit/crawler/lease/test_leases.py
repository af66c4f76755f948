"""Leases: pages in progress at a process, and its pending reports to the frontier."""

from __future__ import annotations

from typing import Any

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.last_contact import FENCE_S
from crawling.lease.leases import START_BY_S, Leases
from crawling.lease.slots import SLOW_S
from crawling.page.page import Page, Phase
from crawlstream.model.crawl import Entry
from crawlstream.model.effects import UNSENT, Links, Outcome, Release, Requeue, SentRequest, Settle
from crawlstream.model.throttle_table import Reaction, SiteReaction
from support.crawler.leases import Clock, lease


@pytest.fixture
def clock() -> Clock:
    """Starts at 100 s."""
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    """A process with four slots."""
    return Leases(4, lambda: None, clock)


def departed(leases: Leases, number: int = 1, **changes: Any) -> Page:
    """A page whose request has left."""
    page = leases.admit(lease(number, **changes))
    leases.set_out(page, page.lease.entry.url)
    leases.note_answer(0, page.admitted_at, 1)
    leases.depart(page)
    leases.departed(page)
    return page


def test_a_slot_is_free_again_when_its_response_is_there(leases: Leases) -> None:
    """Unsent and sent pages occupy slots; parsing and publishing do not."""
    pages = [departed(leases, n) for n in range(4)]
    assert leases.room() == 0
    leases.receive(pages[0])
    assert leases.room() == 1
    leases.settle(pages[0], Outcome.DONE, "2xx")
    assert leases.room() == 1


def test_a_slow_download_gives_its_slot_to_another(leases: Leases, clock: Clock) -> None:
    """Four may be slow without a slot, and twelve at most; each still counts as a lease."""
    for number in range(4):
        departed(leases, number)
    assert (leases.room(), leases.slots.are_idle) == (0, False)
    for taken in (8, 12):
        clock.now += SLOW_S
        assert (leases.room(), leases.slots.are_idle) == (4, True)
        pages = [
            departed(leases, number, issued_at=clock.now) for number in range(taken - 4, taken)
        ]
        assert leases.room() == 0
    clock.now += SLOW_S
    assert leases.room() == 4
    leases.receive(pages[0])
    assert leases.room() == 4, "it took no slot, so it frees none"
    for number in range(12, 16):
        departed(leases, number, issued_at=clock.now)
    clock.now += SLOW_S
    assert leases.room() == 0, "no more leases than four times the slots"


def test_a_host_that_is_not_reached_gives_its_slot_to_another(leases: Leases, clock: Clock) -> None:
    """Gives the slot of a host that is not reached to another page at a known moment."""
    pages = [leases.admit(lease(number)) for number in range(4)]
    assert leases.room_at() == clock.now + SLOW_S, "none has set out, so no sooner than this"
    leases.set_out(pages[0], pages[0].lease.entry.url)
    clock.now += 0.05
    for page in pages[1:]:
        leases.set_out(page, page.lease.entry.url)
    assert (leases.room(), leases.room_at()) == (0, 100 + SLOW_S)
    clock.now = 100 + SLOW_S
    assert leases.room() == 1
    clock.now += 0.05
    assert leases.room() == 4
    leases.note_answer(0, clock.now, 1)
    leases.depart(pages[0])
    leases.receive(pages[0])
    assert leases.room() == 4, "it took no slot, so it frees none"


def test_open_holds_are_bounded_however_fast_the_downloads(leases: Leases) -> None:
    """Pages that wait for Kafka stop the leasing at four times the slots."""
    for number in range(16):
        leases.receive(departed(leases, number))
    assert leases.room() == 0


def test_a_request_sets_out_within_half_a_second_of_its_grant(leases: Leases, clock: Clock) -> None:
    """Later, its grant has expired."""
    early, late = leases.admit(lease(1)), leases.admit(lease(2))
    clock.now += START_BY_S
    leases.set_out(early, early.lease.entry.url)
    clock.now += 0.001
    with pytest.raises(GrantExpired):
        leases.set_out(late, late.lease.entry.url)


def test_fewer_wait_where_grants_expire_and_more_where_they_do_not(clock: Clock) -> None:
    """A process leases what it can send in time: half as much after a delay, growing again."""
    leases = Leases(64, lambda: None, clock)
    first = leases.room()
    late = [leases.admit(lease(n)) for n in range(first)]
    assert leases.room() == 0
    clock.now += START_BY_S + 0.1
    for page in late:
        with pytest.raises(GrantExpired):
            leases.set_out(page, page.lease.entry.url)
        leases.release(page)
    assert leases.room() == first // 2
    for number in range(100, 400):
        page = leases.admit(lease(number, issued_at=clock.now))
        leases.set_out(page, page.lease.entry.url)
        leases.note_answer(0, clock.now, 1)
        leases.depart(page)
        leases.settle(page, Outcome.DONE, "2xx")
        leases.reported(0, leases.of(0).take_report(), ())
    assert leases.room() == 64


def test_fewer_wait_before_any_grant_expires(clock: Clock) -> None:
    """If leases wait long in this process, fewer are taken; the distance of Redis is irrelevant."""
    leases = Leases(64, lambda: None, clock)
    first = leases.room()
    for number in range(100):
        page = leases.admit(lease(number, issued_at=clock.now - 0.2))
        clock.now += 0.2
        leases.set_out(page, page.lease.entry.url)
        leases.note_answer(0, clock.now, 1)
        leases.depart(page)
        leases.settle(page, Outcome.DONE, "2xx")
        leases.reported(0, leases.of(0).take_report(), ())
    assert leases.room() == 1
    for number in range(100, 200):
        page = leases.admit(lease(number, issued_at=clock.now - 0.2))
        leases.set_out(page, page.lease.entry.url)
        leases.depart(page)
        leases.settle(page, Outcome.DONE, "2xx")
        leases.reported(0, leases.of(0).take_report(), ())
    assert leases.room() > first


def test_nothing_leaves_without_word_from_redis(leases: Leases, clock: Clock) -> None:
    """Stops sending at 25 s without Redis; at 30 s, others get the leases."""
    leases.note_answer(0, clock.now, 1)
    clock.now += FENCE_S
    page = leases.admit(lease(issued_at=clock.now))
    with pytest.raises(GrantExpired):
        leases.set_out(page, page.lease.entry.url)
    leases.note_answer(0, clock.now - 1, 1)
    leases.set_out(page, page.lease.entry.url)


def test_a_connection_that_came_while_the_process_was_frozen_is_not_written_to(
    leases: Leases, clock: Clock
) -> None:
    """Writes to no such connection, even if Redis answers: the lease may be another's."""
    soon, late = leases.admit(lease(1)), leases.admit(lease(2))
    leases.set_out(soon, soon.lease.entry.url)
    leases.set_out(late, late.lease.entry.url)
    clock.now += START_BY_S + 1
    leases.note_answer(0, clock.now, 1)
    leases.depart(soon)
    clock.now += FENCE_S
    leases.note_answer(0, clock.now, 1)
    with pytest.raises(GrantExpired):
        leases.depart(late)


def test_a_spare_page_takes_no_slot_and_sends_nothing(leases: Leases) -> None:
    """Releases a spare page after a restart of Redis like others; it takes no slot."""
    page, spare = leases.admit(lease(1)), leases.admit(lease(2, is_spare=True))
    assert (leases.room(), len(leases), leases.slots.unsent) == (3, 1, 1)
    with pytest.raises(GrantExpired):
        leases.set_out(spare, spare.lease.entry.url)
    leases.release_unsent()
    assert [each.is_open for each in (page, spare)] == [False, False]
    assert leases.room() == 4
    leases.reported(0, leases.of(0).take_report(), ())
    assert (len(leases), leases.of(0).alive()) == (0, [])


def test_twice_as_many_spare_pages_are_requested_as_have_ended_unused(leases: Leases) -> None:
    """Requests twice as many spare pages as have ended, up to 128, until the next grant."""
    held, pages = leases.of(0), [leases.admit(lease(n)) for n in range(3)]
    for page in pages:
        assert not held.spares()
        leases.release(page, delay_ms=1)
    leases.settle(leases.admit(lease(4)), Outcome.SKIPPED, "guard_path")
    leases.release(leases.admit(lease(5, is_spare=True)), sent_ms=UNSENT, priority=-7900)
    assert held.spares() == {"a.example": 4}
    assert not leases.of(1).spares()
    leases.admit(lease(6, domain="b.example"))
    assert held.spares() == {"a.example": 4}
    leases.admit(lease(7))
    assert not held.spares()
    for number in range(100):
        spare = leases.admit(lease(number, is_spare=True))
        leases.settle(spare, Outcome.REDIRECTED, "")
    assert held.spares() == {"a.example": 128}


def test_unused_grants_of_64_domains_are_counted(leases: Leases) -> None:
    """The worker forgets the others."""
    for number in range(70):
        page = leases.admit(lease(number, domain=f"{number}.example"))
        leases.settle(page, Outcome.SKIPPED, "guard_path")
    assert [*leases.of(0).spares()] == [f"{number}.example" for number in range(6, 70)]


def test_departures_are_reported_once_and_responses_free_the_domain(
    leases: Leases, clock: Clock
) -> None:
    """The time since the grant is the departure's, whenever it is reported."""
    page = leases.admit(lease())
    clock.now += 0.5
    leases.set_out(page, page.lease.entry.url)
    leases.depart(page)
    leases.departed(page)
    (sent,) = leases.of(0).take_report().sent
    assert (sent.after_ms, sent.received) == (501, False)
    clock.now += 1
    leases.receive(page)
    (sent,) = leases.of(0).take_report().sent
    assert (sent.after_ms, sent.received) == (501, True)
    assert page.latency_ms == 1000


def test_a_departure_that_cannot_be_seen_is_reported_with_its_response(
    leases: Leases, clock: Clock
) -> None:
    """Reports the latest possible moment of a departure behind a TLS handshake."""
    page = leases.admit(lease())
    leases.set_out(page, page.lease.entry.url)
    leases.depart(page)
    assert not leases.of(0).has_report
    clock.now += 0.25
    leases.receive(page)
    (sent,) = leases.of(0).take_report().sent
    assert (sent.after_ms, sent.received) == (251, True)


def test_an_end_carries_the_departure_that_was_not_told_yet(leases: Leases) -> None:
    """A page that ends at once has one report."""
    page = departed(leases)
    leases.receive(page)
    leases.settle(page, Outcome.DONE, "2xx")
    owed = leases.of(0).take_report()
    assert not owed.sent
    assert owed.settles[0].sent_ms == 1


def test_a_page_ends_once(leases: Leases) -> None:
    """Ends a page once; later events change nothing."""
    page = departed(leases)
    leases.requeue(page, 1000)
    leases.settle(page, Outcome.FAILED, "dns")
    leases.release(page)
    assert [type(end) for end in leases.of(0).take_report().ends] == [Requeue]


def test_what_is_unsent_can_be_given_back(leases: Leases) -> None:
    """Requests that are on the wire stay."""
    departed(leases, 1)
    waiting, connecting = leases.admit(lease(2)), leases.admit(lease(3))
    leases.set_out(connecting, connecting.lease.entry.url)
    leases.release_unsent()
    assert [end.token for end in leases.of(0).take_report().ends] == ["1-2", "1-3"]
    with pytest.raises(GrantExpired):
        leases.set_out(waiting, waiting.lease.entry.url)
    with pytest.raises(GrantExpired):
        leases.depart(connecting)


def test_an_end_is_alive_until_it_is_told(leases: Leases) -> None:
    """Reconciling must not give back what is about to be settled."""
    page = departed(leases)
    leases.settle(page, Outcome.DONE, "2xx")
    owed = leases.of(0).take_report()
    assert leases.of(0).alive() == ["1-1"]
    assert leases.reported(0, owed, ()) == []
    assert leases.of(0).alive() == []
    assert leases.by_id(page.id) is None


def test_a_stale_hold_is_dropped_quietly(leases: Leases) -> None:
    """Leases that the frontier does not know any more are not settled here."""
    page, other = departed(leases, 1), departed(leases, 2)
    assert leases.reported(0, leases.of(0).take_report(), {"1-1"}) == [page]
    assert page.phase is Phase.STALE
    leases.settle(page, Outcome.DONE, "2xx")
    assert not leases.of(0).has_report
    assert leases.of(0).alive() == [other.token]
    assert leases.room() == 3


def test_an_exchange_is_bounded() -> None:
    """Limits an exchange to 200 ends and 1 000 links; a huge page goes alone."""
    roomy = Leases(400, lambda: None)
    for number in range(250):
        page = roomy.admit(lease(number))
        group = Links(domain="a", priority=1)
        group.entries = [b""] * (5000 if number == 0 else 10)
        page.links = [group]
        roomy.settle(page, Outcome.DONE, "2xx")
    sizes = []
    while roomy.of(0).has_report:
        sizes.append(len(list(roomy.of(0).take_report().ends)))
    assert sizes[0] == 1
    assert sizes[1] == 100
    assert sum(sizes) == 250


def test_every_kind_of_end_reaches_the_frontier(leases: Leases) -> None:
    """Settle, requeue and release, with what belongs to each."""
    first, second, third, buyer, skipped = (leases.admit(lease(n)) for n in range(5))
    first.filtered["domain"] += 2
    first.body_bytes = 7
    leases.settle(first, Outcome.REDIRECTED, "")
    leases.requeue(second, 500)
    leases.release(third, delay_ms=9)
    leases.release_buyer(buyer, crawl_delay_ms=5)
    leases.settle(skipped, Outcome.SKIPPED, "guard_path")
    owed = leases.of(0).take_report()
    assert list(owed.ends) == [
        Settle(
            token="1-0",
            outcome=Outcome.REDIRECTED,
            reason="",
            filtered={"domain": 2},
            sent_ms=UNSENT,
            body_bytes=7,
        ),
        Settle(
            token="1-4",
            outcome=Outcome.SKIPPED,
            reason="guard_path",
            sent_ms=UNSENT,
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
    *, leases: Leases, reaction: Reaction, outcome: Outcome, is_told: bool
) -> None:
    """Reports the reaction of a site at the latest with the end, unless a result implies it."""
    page = departed(leases, 1)
    heard = SiteReaction(reaction, wait_ms=7)
    leases.receive(page, heard)
    leases.settle(page, outcome, "")
    owed = leases.of(0).take_report()
    expected = [SentRequest(page.token, 1, received=True, heard=heard)] if is_told else []
    assert list(owed.sent) == expected
    assert len(list(owed.ends)) == 1


@pytest.mark.parametrize("is_gentle", [True, False])
def test_the_first_byte_is_timed_from_the_departure_of_the_request(*, is_gentle: bool) -> None:
    """Times the first byte from the request's departure, without waiting, connecting and body."""
    clock = Clock()
    leases = _in_contact(clock)
    page = leases.admit(lease(1, is_gentle=is_gentle))
    clock.now += 0.25
    leases.set_out(page, page.lease.entry.url)
    clock.now += 0.5
    leases.depart(page)
    clock.now += 0.375
    page.head_at = clock()
    clock.now += 2
    leases.receive(page, SiteReaction(Reaction.ANSWER))
    leases.settle(page, Outcome.DONE, "2xx")
    told = [one.first_byte_ms for one in leases.of(0).take_report().sent]
    assert told == ([375] if is_gentle else [])


@pytest.mark.parametrize(
    ("reaction", "first_byte_ms"),
    [(Reaction.ANSWER, 1), (Reaction.REFUSAL, None), (Reaction.SILENCE, 3_000)],
)
def test_a_silence_lasts_for_the_timeout_and_a_refusal_is_no_measure(
    reaction: Reaction, first_byte_ms: int | None
) -> None:
    """An answer takes a millisecond at least; it is not measured if its head was not seen."""
    clock = Clock()
    leases = _in_contact(clock)
    pages = [leases.admit(lease(n, is_gentle=True)) for n in (1, 2)]
    for page in pages:
        leases.set_out(page, page.lease.entry.url)
        leases.depart(page)
    pages[0].head_at = clock()
    for page in pages:
        leases.receive(page, SiteReaction(reaction))
    told = [one.first_byte_ms for one in leases.of(0).take_report().sent]
    assert told == [first_byte_ms, None if reaction is Reaction.ANSWER else first_byte_ms]


def _in_contact(clock: Clock) -> Leases:
    leases = Leases(4, lambda: None, clock)
    leases.timeout_s = 3
    leases.note_answer(0, clock.now, 1)
    return leases


def test_a_connection_that_did_not_come_about_is_told(leases: Leases) -> None:
    """The site was called, though no request was written."""
    page = leases.admit(lease(1))
    leases.set_out(page, page.lease.entry.url)
    heard = SiteReaction(Reaction.SILENCE)
    leases.receive(page, heard)
    leases.requeue(page, 500)
    owed = leases.of(0).take_report()
    assert list(owed.sent) == [SentRequest(page.token, 1, received=True, heard=heard)]
    assert list(owed.requeues) == [Requeue(token=page.token, delay_ms=500, sent_ms=1)]


def test_an_entry_that_cannot_be_crawled_is_held_all_the_same(leases: Leases) -> None:
    """It fails with a reason later; it must not break the worker that leases it."""
    first, second = (
        leases.admit(lease(n, entry=Entry(url=f"gopher://a.example/{n}"))) for n in range(2)
    )
    assert first.id != second.id


def test_the_same_entry_has_the_same_id_whoever_holds_it(leases: Leases) -> None:
    """Retries, replays and other workers publish under one key."""
    first = leases.admit(lease(1, entry=Entry(url="http://a.example/x")))
    again = Leases(1, lambda: None).admit(
        lease(9, entry=Entry(url="http://a.example/x"), retries=2)
    )
    seed = leases.admit(lease(3, entry=Entry(url="http://a.example/x", origin="t-0-1")))
    assert first.id == again.id != seed.id


def test_a_domain_whose_pages_are_dear_rests(leases: Leases) -> None:
    """Its next pages are given back until the others have had as much; those of others are not."""
    for number, domain, cpu_s in ((1, "b.example", 0.005), (2, "a.example", 2.0)):
        page = departed(leases, number, domain=domain)
        page.cpu_s = cpu_s
        leases.settle(page, Outcome.DONE, "2xx")
    leases.of(0).take_report()
    leased = [leases.admit(lease(3)), leases.admit(lease(4, domain="b.example"))]
    assert leases.rest(leased) == leased[1:]
    assert [release.delay_ms for release in leases.of(0).take_report().releases] == [2000]


def test_half_of_what_is_in_hand_never_rests(leases: Leases) -> None:
    """Lets at most half of the leased pages rest, for a short time."""
    for number, cpu_s in ((1, 0.005), (2, 40.0), (3, 2.0)):
        page = departed(leases, number, domain=f"{number}.example")
        page.cpu_s = cpu_s
        leases.settle(page, Outcome.DONE, "2xx")
    leases.of(0).take_report()
    leased = [
        leases.admit(lease(number, domain=f"{2 + number % 2}.example")) for number in range(4)
    ]
    assert leases.rest(leased) == [leased[1], leased[3]]
    assert [release.delay_ms for release in leases.of(0).take_report().releases] == [30_000, 30_000]
