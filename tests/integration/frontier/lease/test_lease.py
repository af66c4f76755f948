"""The one way out, and the ends of leases: order, turns, tokens, answers that were lost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import UNSENT, Outcome, Release, Requeue, Settle
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import KEYS, WIDE_OPEN, Bench, links, url_of

pytest_plugins = ["support.frontier.fixtures"]

SPACED = ThrottleRule(hits=1, window_s=10)


async def test_holds_carry_what_the_seed_said(bench: Bench) -> None:
    """Every page below a seed has its profile and the number of its run."""
    await bench.feed.seeds("a/1", useragent="one", maxdepth=2)
    await bench.feed.seeds("b/1", useragent="two", maxdepth=1)
    leases = await bench.worker.lease(2)
    for lease in leases:
        await bench.worker.settle(lease, links=[links(lease.domain, ["child"])])
    children = {lease.domain: lease.profile for lease in await bench.worker.lease(2)}
    assert children == {lease.domain: lease.profile for lease in leases}
    assert {profile.useragent for profile in children.values()} == {"one", "two"}
    assert all(lease.run == 1 for lease in leases)


async def test_equal_profiles_are_stored_once(bench: Bench) -> None:
    """A thousand seeds with the same limits share one profile."""
    for _ in range(5):
        await bench.feed.seeds(*(f"a/{i}" for i in range(20)), maxdepth=3)
    assert await bench.redis.hget("{cs0}f:1", "#") == b"1"


@pytest.mark.parametrize("domains", [1, 30])
async def test_an_answer_has_a_bounded_weight(bench: Bench, domains: int) -> None:
    """Entries beyond what a worker can receive in time are not leased; later calls get the rest."""
    heavy = "x" * 1_000_000
    for number in range(60):
        await bench.feed.seeds(f"{number % domains}/{number}", attrs={"is": f"{number}{heavy}"})
    answers = []
    while (answer := await bench.worker.exchange(want=200)).leases:
        answers.append(len(answer.leases))
        assert answer.next_due_ms == (0 if sum(answers) < 60 else None)
        await bench.worker.settle(*answer.leases)
    assert sum(answers) == 60
    assert max(answers) <= 20


async def test_a_settled_token_is_stale(bench: Bench) -> None:
    """A lease ends once: later ends, and ends under unknown tokens, change nothing."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    assert not (await bench.worker.settle(lease)).stale
    assert (await bench.worker.settle(lease, links=[links("a", [2])])).stale == {lease.token}
    assert (await bench.worker.requeue(lease)).stale == {lease.token}
    assert (await bench.worker.release(lease)).stale == {lease.token}
    assert (await bench.worker.sent(lease)).stale == {lease.token}
    state = await bench.state()
    assert (state.admitted, state.done) == (1, 1)


async def test_a_token_belongs_to_one_worker(bench: Bench) -> None:
    """Another worker's token of the same name is another lease."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    other = bench.another_worker("w2")
    assert (await other.settle(lease)).stale == {lease.token}
    assert (await bench.state()).held == 1


async def test_a_token_named_twice_in_one_call_ends_once(bench: Bench) -> None:
    """The first end of a lease in a call wins."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    answer = await bench.worker.exchange(
        settles=[Settle(token=lease.token, outcome=Outcome.DONE)],
        requeues=[Requeue(token=lease.token)],
        releases=[Release(token=lease.token)],
    )
    assert not answer.stale
    state = await bench.state()
    assert (state.done, state.pending) == (1, 0)


async def test_outcomes_are_counted_by_reason(bench: Bench) -> None:
    """Pages stand in the ledger by their outcome, and all but redirected ones by reason."""
    await bench.feed.seeds("a/1", "a/2", "a/3", "a/4")
    done, failed, redirected, skipped = await bench.worker.lease(4)
    await bench.worker.settle(done, body_bytes=1_000)
    await bench.worker.settle(failed, outcome=Outcome.FAILED)
    await bench.worker.settle(redirected, outcome=Outcome.REDIRECTED, body_bytes=5)
    end = Settle(token=skipped.token, outcome=Outcome.SKIPPED, reason="guard_path", sent_ms=UNSENT)
    await bench.worker.exchange(settles=[end])
    state = await bench.state()
    assert (state.done, state.failed, state.redirected, state.skipped) == (1, 1, 1, 1)
    assert state.skipped_by_reason == {"guard_path": 1}
    assert (state.ended, state.residual) == (4, 0)
    assert (state.done_by_status, state.failed_by_reason) == ({"2xx": 1}, {"dns": 1})
    assert state.body_bytes == 1_005


async def test_a_run_counts_the_first_64_refused_families(bench: Bench) -> None:
    """Links that were left out and pages that were skipped add up; a hostile site adds no more."""
    await bench.feed.seeds("a/1", "a/2", "a/3")
    first, second, skipped = await bench.worker.lease(3)
    many = {f"guard_parameter a.example ?{n}": 1 for n in range(63)}
    await bench.worker.settle(first, refused={"guard_host a.example host": 5} | many)
    more = {"guard_parameter a.example ?0": 7, "guard_path b.example /a": 9}
    await bench.worker.settle(second, refused=more)
    own = {"guard_host a.example host": 1}
    end = Settle(
        token=skipped.token,
        outcome=Outcome.SKIPPED,
        reason="guard_host",
        refused=own,
        sent_ms=UNSENT,
    )
    await bench.worker.exchange(settles=[end])
    state = await bench.state()
    assert state.skipped_by_reason == {"guard_host": 1}
    assert len(state.refused_by_family) == 64
    assert [(each.family, each.reason, each.count) for each in state.refused_families[:3]] == [
        ("?0", "guard_parameter", 8),
        ("host", "guard_host", 6),
        ("?1", "guard_parameter", 1),
    ]
    assert state.residual == 0


async def test_a_requeued_entry_loses_priority_and_its_place(bench: Bench) -> None:
    """A retry costs 10 in priority and goes behind the entries that wait there."""
    await bench.feed.seeds("a/1", "a/2", priority=50)
    await bench.feed.seeds("a/low", priority=40)
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease)
    leases = await bench.worker.lease(10)
    assert [(url_of(h), h.priority, h.attempt) for h in leases] == [
        ("a/2", 50, 1),
        ("a/low", 40, 1),
        ("a/1", 40, 2),
    ]


async def test_a_released_entry_keeps_its_place_and_is_unmarked(bench: Bench) -> None:
    """A released entry is the next of its band again."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.release(lease)
    assert [(url_of(h), h.attempt) for h in await bench.worker.lease(2)] == [("a/1", 1), ("a/2", 1)]


async def test_a_released_entry_goes_to_another_band_unmarked(bench: Bench) -> None:
    """Its grant is free again at once, and it comes after the entries there, as a first attempt."""
    await bench.rule(SPACED)
    await bench.feed.seeds("a/1", "a/2", "b/1")
    leases = {url_of(lease): lease for lease in await bench.worker.lease(3)}
    await bench.worker.release(leases["a/1"], priority=-7_900, sent_ms=UNSENT)
    (second,) = await bench.worker.lease(3)
    assert url_of(second) == "a/2"
    await bench.worker.release(second, priority=-7_900, sent_ms=UNSENT)
    (first,) = await bench.worker.lease(3)
    assert (url_of(first), first.priority, first.attempt) == ("a/1", -7_900, 1)
    assert not first.is_marked
    assert (await bench.state()).residual == 0


async def test_a_delayed_requeue_waits(bench: Bench) -> None:
    """A retry with a delay counts as delayed until its time."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease, delay_ms=5_000)
    assert (await bench.state()).delayed == 1
    answer = await bench.worker.exchange(want=1)
    assert not answer.leases
    assert answer.next_due_ms is not None
    assert 4_000 < answer.next_due_ms <= 5_000
    await bench.advance(5_000)
    assert await bench.worker.urls() == ["a/1"]


async def test_a_delayed_release_returns_in_front(bench: Bench) -> None:
    """An entry held back for a while is first of its band when its time has come."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.worker.release(lease, delay_ms=500)
    await bench.advance(500)
    assert await bench.worker.urls() == ["a/1", "a/2"]


async def test_a_lost_answer_is_given_again(bench: Bench) -> None:
    """A repeated call grants the same leases in the same order, and no others."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(40)))
    first = await bench.worker.exchange(want=20)
    bench.worker.session._call -= 1
    again = await bench.worker.exchange(want=20)
    assert [h.token for h in again.leases] == [h.token for h in first.leases]
    assert [h.entry for h in again.leases] == [h.entry for h in first.leases]
    assert (await bench.state()).held == 20


async def test_ends_in_a_lost_answer_take_effect_once(bench: Bench) -> None:
    """Repeating a whole call, together with more, ends nothing twice."""
    await bench.feed.seeds("a/1", "a/2", "a/3")
    one, two, three = await bench.worker.lease(3)
    await bench.worker.settle(one, two, links=[links("a", [8])])
    bench.worker.session._call -= 1
    answer = await bench.worker.settle(one, two, three, links=[links("a", [8])])
    assert answer.stale == {one.token, two.token}
    state = await bench.state()
    assert (state.admitted, state.done, state.queued) == (4, 3, 1)
    assert state.filtered_by_reason == {"duplicate": 2}


async def test_without_rules_nothing_is_granted(unruled: Bench) -> None:
    """Rules that have not arrived yet allow nothing, and the answer says so."""
    await unruled.feed.seeds("a/1")
    answer = await unruled.worker.exchange(want=5)
    assert (list(answer.leases), answer.rules_known) == ([], False)
    await unruled.rule(WIDE_OPEN)
    assert await unruled.worker.urls() == ["a/1"]


async def test_next_due_tells_how_long_nothing_will_come(bench: Bench) -> None:
    """0 while something is ready, the time of the next domain, None when nothing waits."""
    await bench.rule(SPACED)
    assert (await bench.worker.exchange(want=1)).next_due_ms is None
    await bench.feed.seeds("a/1", "a/2", "b/1")
    answer = await bench.worker.exchange(want=1)
    assert answer.next_due_ms == 0
    answer = await bench.worker.exchange(want=5)
    assert len(answer.leases) == 1
    assert answer.next_due_ms is not None
    assert 9_000 < answer.next_due_ms <= 10_000


async def test_links_for_a_new_domain_are_due_at_once(bench: Bench) -> None:
    """A domain that ran empty takes new links as its throttle allows, not later."""
    await bench.rule(ThrottleRule(hits=100, window_s=60, moderated=False))
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    assert not await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", [2])])
    assert await bench.worker.urls() == ["a/2"]


async def test_a_page_with_thousands_of_links_is_put_in_parts(bench: Bench) -> None:
    """Admits all links of a page with its completion, however many it has."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    groups = [links(f"d{i}", range(700)) for i in range(3)] + [links("big", range(2_500))]
    answer = await bench.worker.settle(lease, links=groups)
    assert not answer.stale
    state = await bench.state()
    assert (state.admitted, state.done) == (1 + 2_100 + 2_500, 1)


async def test_many_pages_with_many_links_fit_one_call(bench: Bench) -> None:
    """Links that do not fit one script go ahead of it; nothing is lost or doubled."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(8)))
    leases = await bench.worker.lease(8)
    settles = [
        Settle(token=lease.token, outcome=Outcome.DONE, links=[links(f"d{i}", range(400))])
        for i, lease in enumerate(leases)
    ]
    assert not (await bench.worker.exchange(settles=settles)).stale
    state = await bench.state()
    assert (state.admitted, state.done, state.queued) == (8 + 3_200, 8, 3_200)


async def test_a_restart_between_a_page_and_its_links_repeats_them(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Links put ahead of a settle are put again when Redis was restarted in between."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    children = bench.worker.session._children
    put = children.put
    saved = {key: await bench.redis.dump(key) for key in await bench.redis.keys()}

    async def put_and_lose(*args: Any) -> tuple[int | None, bool]:
        done = await put(*args)
        monkeypatch.undo()
        await bench.redis.flushdb()
        for key, value in saved.items():
            await bench.redis.restore(key, 0, value)
        await bench.pretend_restart()
        return done

    monkeypatch.setattr(children, "put", put_and_lose)
    answer = await bench.worker.settle(lease, links=[links("b", range(1_500))])
    assert not answer.stale
    state = await bench.state()
    assert (state.admitted, state.done) == (1_501, 1)


async def test_children_of_a_stale_hold_do_not_enter(bench: Bench) -> None:
    """Links of a page that another worker has by now change nothing, however many."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.blame("w1", "")
    answer = await bench.worker.settle(lease, links=[links("b", range(1_500))])
    assert answer.stale == {lease.token}
    assert (await bench.state()).admitted == 1


async def test_an_entry_that_cannot_be_read_blocks_no_other(bench: Bench) -> None:
    """Entries of another version are left to workers that understand them; the rest goes on."""
    seed = bench.feed.seed("a/1")
    await bench.feed.put(replace(seed, entry=b"\xff of the future"), bench.feed.seed("a/2"))
    assert await bench.worker.urls() == ["a/2"]
    assert not await bench.worker.lease()
    await bench.worker.session.reconcile(bench.worker.leases)
    state = await bench.state()
    assert (state.queued, state.held) == (1, 1)


async def test_empty_groups_of_links_are_harmless(bench: Bench) -> None:
    """A group without links in a domain that is known already is nothing."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", []), links("b", [])])
    assert (await bench.state()).admitted == 1


async def test_a_call_grants_at_most_two_hundred(bench: Bench) -> None:
    """No script runs long, whatever a worker asks for."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(100)))
    await bench.feed.seeds(*(f"b/{i}" for i in range(150)))
    assert len(await bench.worker.lease(100_000)) == 200


async def test_crawls_are_found_by_spider_and_app(bench: Bench) -> None:
    """Info lists the crawls of an application, with the queued pages of each domain."""
    for spiderid, appid in (("link", "app"), ("link", "app2"), ("other", "app")):
        crawl = CrawlKey(spiderid, appid, "c")
        await bench.feed.seeds("a/1", "a/2", crawl=crawl, priority=70)
        await bench.feed.seeds("a/3", "b/1", crawl=crawl, priority=20)
    (state,) = await bench.frontier.queries.crawls(spiderid="link", appid="app", with_domains=True)
    backlog = {d.domain: (d.total, d.high_priority, d.low_priority) for d in state.domains}
    assert backlog == {"a": (3, 70, 20), "b": (1, 20, 20)}
    assert len(await bench.frontier.queries.crawls(spiderid="link")) == 2
    assert len(await bench.frontier.queries.crawls(appid="app")) == 2
    assert await bench.frontier.queries.crawl_state(CrawlKey("link", "app", "unknown")) is None


async def test_the_domains_of_a_large_crawl_are_all_listed_once(bench: Bench) -> None:
    """Info pages through thousands of domains."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links(f"d{i}", [1]) for i in range(900)])
    state = await bench.state()
    assert sorted(d.domain for d in state.domains) == sorted(f"d{i}" for i in range(900))


async def test_the_frontier_at_a_glance(bench: Bench) -> None:
    """Totals over all crawls, by counters alone."""
    await bench.feed.seeds("a/1", "a/2", "b/1")
    await bench.feed.seeds("c/1", crawl=CrawlKey("a b", "app", "x"))
    leases = await bench.worker.lease(2)
    await bench.worker.requeue(leases[0], delay_ms=1_000)
    state = await bench.frontier.queries.state()
    assert (state.crawls, state.queued, state.delayed, state.held) == (2, 2, 1, 1)
    assert (state.rules_known, state.workers) == (True, 1)
    assert state.outbox == 2
    assert state.backlog == {"a b": {"domains": 1}, "link": {"domains": 2}}


async def test_a_redis_that_nobody_has_used_shows_nothing(unruled: Bench) -> None:
    """All counts are 0, no rules are known, and there is no time yet."""
    state = await unruled.frontier.queries.state()
    assert not state.rules_known
    assert (state.crawls, state.queued, state.delayed, state.held, state.spilled) == (0,) * 5
    await unruled.redis.flushdb()
    state = await unruled.frontier.queries.state()
    assert (state.life, state.clock_ms, state.residual, state.workers) == (0, 0, 0, 0)


async def test_marks_are_read_behind_any_profile_number(bench: Bench) -> None:
    """The twelfth profile of a crawl, like the first: its entries know how often they failed."""
    for number in range(12):
        await bench.feed.seeds("a/1", maxdepth=number)
    for attempt in (1, 2, 3):
        leases = await bench.worker.lease(12)
        assert [lease.attempt for lease in leases] == [attempt] * 12
        await bench.worker.requeue(*leases)


async def test_the_latest_activity_of_a_run_is_told(bench: Bench) -> None:
    """A page that ends is one."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    (record,) = await bench.redis.keys(KEYS.tag + "x:*")
    await bench.redis.hset(record, "active", 0)
    await bench.worker.settle(lease)
    assert (await bench.state()).last_activity > 1_000_000_000
