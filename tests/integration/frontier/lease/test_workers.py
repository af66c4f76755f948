"""Workers that die, forget, freeze or end well; pages that kill their worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import OutboxRecord, Outcome, Settle
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.codec.values import unpack
from crawlstream_frontier.revocation import MAX_HOLD_MS, RevokeResult, reap
from crawlstream_frontier.worker.session import DEADLINE_MS
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench, Worker, links, url_of

pytest_plugins = ["support.frontier.fixtures"]


async def dead_letters(bench: Bench) -> list[OutboxRecord]:
    """Pages that were given up since the last time."""
    return [one for one in await bench.owed() if one.kind == "page_failed"]


async def die(bench: Bench, worker: Worker, lease: Lease | None = None) -> None:
    """A worker dies while it handles a page, and its successor says so."""
    await bench.blame(worker.name, lease.token if lease else "")


async def test_a_dead_worker_s_holds_return_in_their_old_order(bench: Bench) -> None:
    """Past the deadline entries are in front of their bands again, unmarked."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(30)))
    dead = bench.another_worker("dead")
    await dead.lease(7)
    await dead.lease(13)
    await bench.advance(DEADLINE_MS - 1_000)
    await bench.tend()
    assert (await bench.state()).held == 20
    await bench.advance(1_000)
    await bench.tend()
    leases = await bench.worker.lease(50)
    assert [url_of(lease) for lease in leases] == [f"a/{i}" for i in range(30)]
    assert {lease.attempt for lease in leases} == {1}


async def test_a_beat_keeps_a_worker_alive(bench: Bench) -> None:
    """A worker without reports keeps its leases by heartbeats."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    life = (await bench.frontier.queries.state()).life
    for _ in range(4):
        await bench.advance(DEADLINE_MS - 1_000)
        assert await bench.worker.session.beat() == life
        await bench.tend()
    assert not (await bench.worker.settle(lease)).stale


async def test_what_a_reaped_worker_says_later_changes_nothing(bench: Bench) -> None:
    """A frozen worker that wakes up finds its tokens stale, and may go on with new ones."""
    await bench.feed.seeds("a/1", "a/2")
    (lease,) = await bench.worker.lease()
    await bench.advance(DEADLINE_MS)
    await bench.tend()
    other = bench.another_worker("w2")
    (again,) = await other.lease()
    assert url_of(again) == url_of(lease)
    answer = await bench.worker.exchange(
        settles=[Settle(token=lease.token, outcome=Outcome.DONE, links=[links("b", [1])])],
        want=1,
    )
    assert answer.stale == {lease.token}
    assert [url_of(new) for new in answer.leases] == ["a/2"]
    state = await bench.state()
    assert (state.admitted, state.done, state.held) == (2, 0, 2)


async def test_all_dead_workers_are_reaped(bench: Bench) -> None:
    """Returns the entries of all dead workers after one round, however many died at once."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(40)))
    for i in range(20):
        await bench.another_worker(f"dead{i}").lease(2)
    await bench.advance(DEADLINE_MS)
    await bench.tend()
    assert (await bench.state()).held == 0
    assert sorted(await bench.worker.urls()) == sorted(f"a/{i}" for i in range(40))


async def test_only_the_blamed_page_gains_a_death(bench: Bench) -> None:
    """Three deaths make a dead letter; pages that were merely held with it go on."""
    await bench.feed.seeds("a/killer", "a/1", "a/2", useragent="me")
    for i in range(3):
        assert not await dead_letters(bench)
        worker = bench.another_worker(f"victim{i}")
        leases = {url_of(lease): lease for lease in await worker.lease(3)}
        assert len(leases) == 3
        await die(bench, worker, leases["a/killer"])
        await bench.advance(1_000)
    (letter,) = await dead_letters(bench)
    assert (letter.reason, letter.crawl, letter.run) == ("killed_worker", CRAWL, 1)
    assert letter.lease is not None
    assert (url_of(letter.lease), letter.lease.domain) == ("a/killer", "a")
    assert letter.lease.profile.useragent == "me"
    assert letter.spiderid == CRAWL.spiderid
    assert await bench.worker.crawl_all() == ["a/1", "a/2"]
    state = await bench.state()
    assert (state.failed, state.failed_by_reason) == (1, {"killed_worker": 1})


async def test_who_comes_late_to_reap_finds_nobody(bench: Bench) -> None:
    """Another redis-monitor may have reaped the same worker in between."""
    await bench.feed.seeds("a/1")
    await bench.worker.lease()
    assert await reap(bench.frontier.scripts.run) == RevokeResult()
    assert (await bench.state()).held == 1


async def test_twenty_reaps_without_blame_are_too_many(bench: Bench) -> None:
    """A page that was held by twenty dead workers is given up, though no process blamed it."""
    await bench.feed.seeds("a/1")
    reaps = 0
    while not await dead_letters(bench):
        worker = bench.another_worker(f"victim{reaps}")
        while not await worker.lease():
            await bench.advance(1_000)
        await die(bench, worker)
        reaps += 1
    assert reaps == 20


async def test_a_dead_letter_that_cannot_be_read_is_still_told(bench: Bench) -> None:
    """An entry of another version that was given up does not hold up the outbox."""
    seed = bench.feed.seed("a/1")
    await bench.feed.put(replace(seed, entry=b"\xff of the future"))
    for i in range(20):
        await bench.another_worker(f"victim{i}").lease()
        await bench.blame(f"victim{i}", "")
        await bench.advance(60_000)
    (letter,) = await dead_letters(bench)
    assert (letter.lease, letter.reason) == (None, "killed_worker")


async def test_reaps_delay_an_entry_more_and_more(bench: Bench) -> None:
    """Delays an entry from the third reap on: 1, 2, 4 … 60 seconds."""
    await bench.feed.seeds("a/1")
    pauses = []
    for i in range(12):
        worker = bench.another_worker(f"victim{i}")
        (lease,) = await worker.lease()
        await die(bench, worker, None)
        answer = await bench.worker.exchange(want=1)
        if answer.leases:
            pauses.append(0)
            await bench.worker.release(*answer.leases)
        else:
            assert answer.next_due_ms is not None
            pauses.append(round(answer.next_due_ms / 1000))
            await bench.advance(answer.next_due_ms)
        assert url_of(lease) == "a/1"
    assert pauses == [0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60, 60]


async def test_blame_of_an_unknown_worker_is_harmless(bench: Bench) -> None:
    """A successor may report what was reaped long ago."""
    await bench.feed.seeds("a/1")
    assert await bench.blame("never", "1-1") == 0
    (lease,) = await bench.worker.lease()
    assert await bench.blame("never", lease.token) == 0
    assert (await bench.state()).held == 1


async def test_a_dead_letter_of_a_stopping_run_counts_as_failed(bench: Bench) -> None:
    """The ledger of a run that is being stopped adds up whatever becomes of its pages."""
    await bench.feed.seeds("a/1")
    for i in range(3):
        worker = bench.another_worker(f"victim{i}")
        (lease,) = await worker.lease()
        if i == 2:
            await bench.feed.put(bench.feed.command("stop"))
            await bench.tend()
        await die(bench, worker, lease)
    (letter,) = await dead_letters(bench)
    assert letter.lease is not None
    await bench.tend()
    (ending,) = await bench.owed()
    assert (ending.kind, ending.counters["failed"]) == ("crawl_stopped", 1)


async def test_a_retiring_worker_gives_everything_back(bench: Bench) -> None:
    """The leases of a worker return unmarked and in order, and the worker is gone."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(150)))
    going = bench.another_worker("going")
    await going.lease(60)
    await going.lease(40)
    assert await going.session.retire() == 100
    assert await bench.redis.zscore(f"{KEYS.tag}workers", "going") is None
    assert await bench.worker.urls(150) == [f"a/{i}" for i in range(150)]
    assert await going.session.retire() == 0


async def test_much_that_a_worker_held_returns_in_small_steps(bench: Bench) -> None:
    """No script takes back more than 64 pages; the one that is blamed goes with the first."""
    await bench.feed.seeds(*(f"d{i}/1" for i in range(150)))
    dead = bench.another_worker("dead")
    blamed = (await dead.lease(150))[0]
    frontier = bench.frontier
    steps = [unpack(await frontier.scripts.run("reap", "dead", blamed.token)) for _ in range(4)]
    assert [(step[1], step[3]) for step in steps] == [
        (65, True),
        (64, True),
        (21, False),
        (0, False),
    ]
    going = bench.another_worker("going")
    await going.lease(150)
    steps = [unpack(await frontier.scripts.run("retire", "going", b"", 0, 0)) for _ in range(3)]
    assert [(len(step[0]), step[2]) for step in steps] == [(64, True), (64, True), (22, False)]
    assert (await bench.state()).queued == 150


async def test_a_worker_is_dead_until_the_last_of_its_pages_has_returned(bench: Bench) -> None:
    """Care goes on from step to step, and counts the worker once."""
    await bench.feed.seeds(*(f"d{i}/1" for i in range(150)))
    await bench.another_worker("dead").lease(150)
    await bench.advance(DEADLINE_MS)
    steps = await bench.tend()
    assert sum(step.reaped for step in steps) == 1
    assert (await bench.state()).queued == 150
    assert await bench.redis.zscore(f"{KEYS.tag}workers", "dead") is None


async def test_reconcile_releases_what_the_worker_forgot(bench: Bench) -> None:
    """A lease that no worker answers for returns; those alive stay."""
    await bench.feed.seeds("a/1", "a/2")
    alive, forgotten = await bench.worker.lease(2)
    lost = await bench.worker.session.reconcile([alive.token, "7-7"])
    assert lost == ["7-7"]
    assert await bench.worker.urls() == [url_of(forgotten)]
    assert not (await bench.worker.settle(alive)).stale


async def test_a_late_reconcile_releases_nothing_younger(bench: Bench) -> None:
    """Leases granted during a long call are not reconciled by it."""
    await bench.feed.seeds("a/1", "a/2", "a/3")
    session, scripts = bench.worker.session, cast(Any, bench.worker.session._scripts)
    alive, forgotten = await bench.worker.lease(2)
    run, young = scripts.run, list[Lease]()

    async def run_late(operation: str, *args: Any) -> object:
        scripts.run = run
        young.extend(await bench.worker.lease(1))
        await bench.advance(25_000)
        return await run(operation, *args)

    scripts.run = run_late
    assert not await session.reconcile([alive.token])
    assert await bench.worker.urls() == [url_of(forgotten)]
    assert not (await bench.worker.settle(alive, *young)).stale


async def test_reconcile_takes_holds_that_are_too_old(bench: Bench) -> None:
    """Revokes a lease that is too old, though its worker still reports it, and says so."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    for _ in range(MAX_HOLD_MS // 20_000 + 1):
        await bench.advance(20_000)
        await bench.worker.session.beat()
    lost = await bench.worker.session.reconcile([lease.token])
    assert lost == [lease.token]
    assert (await bench.worker.settle(lease)).stale == {lease.token}
    assert (await bench.state()).queued == 1


async def held_for_ever(bench: Bench, worker: Worker) -> int:
    """How often a page is leased that its worker neither ends nor forgets, until it is given up."""
    times = 0
    while not (letters := await dead_letters(bench)):
        while not (leases := await worker.lease()):
            await bench.advance(1_000)
        times += 1
        await bench.advance(MAX_HOLD_MS + 1)
        lost = await worker.session.reconcile([lease.token for lease in leases])
        assert len(lost) == 1
    assert [letter.reason for letter in letters] == ["hold_timeout"]
    return times


async def test_a_page_that_always_hangs_is_given_up(bench: Bench) -> None:
    """Twenty times ten minutes, and its run ends."""
    await bench.feed.seeds("a/1")
    assert await held_for_ever(bench, bench.worker) == 20
    state = await bench.state()
    assert (state.failed, state.failed_by_reason) == (1, {"hold_timeout": 1})
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert await bench.events() == ["crawl_finished"]


async def test_an_entry_that_no_worker_can_read_is_given_up(bench: Bench) -> None:
    """It is released for a worker of another version, with growing pauses, and not without end."""
    seed = bench.feed.seed("a/1")
    await bench.feed.put(replace(seed, entry=b"\xff of the future"))
    for _ in range(20):
        await bench.advance(61_000)
        assert await bench.worker.lease() == []
        await bench.worker.session.reconcile([])
    (letter,) = await dead_letters(bench)
    assert (letter.lease, letter.reason) == (None, "hold_timeout")
    assert (await bench.state()).failed_by_reason == {"hold_timeout": 1}


async def test_a_worker_remembers_nothing_of_ended_holds(bench: Bench) -> None:
    """The data that a process keeps for each lease goes with it, however the lease ended."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(6)))
    session = bench.worker.session
    settled, requeued, released, forgotten, _, _ = await bench.worker.lease(6)
    await bench.worker.settle(settled)
    await bench.worker.requeue(requeued)
    await bench.worker.release(released)
    await session.reconcile([forgotten.token])
    assert len(session._children) == 1
    await session.retire()
    assert len(session._children) == 0


async def test_holds_of_the_dead_count_as_sent(bench: Bench) -> None:
    """Requests a dead worker may have sent use up the allowance: spacing runs from the reap."""
    await bench.rule(ThrottleRule(hits=1, window_s=10))
    await bench.feed.seeds("a/1", "a/2")
    dead = bench.another_worker("dead")
    await dead.lease()
    await bench.advance(DEADLINE_MS)
    await bench.tend()
    answer = await bench.worker.exchange(want=1)
    assert not answer.leases
    assert answer.next_due_ms is not None
    assert 9_000 < answer.next_due_ms <= 10_000


async def test_a_run_ends_though_its_last_worker_died(bench: Bench) -> None:
    """Stopping a run whose pages are in a dead worker's hands ends with the reap."""
    await bench.feed.seeds("a/1", crawl=replace(CRAWL, crawlid="x"))
    await bench.feed.seeds("a/2")
    await bench.another_worker("dead").lease(2)
    await bench.feed.put(bench.feed.command("stop"))
    await bench.tend()
    await bench.advance(DEADLINE_MS)
    await bench.tend()
    kinds = [one.kind for one in await bench.owed() if one.crawl == CRAWL]
    assert kinds == ["crawl_started", "crawl_stopped"]
    assert await bench.worker.crawl_all() == ["a/1"]
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert "crawl_finished" in await bench.events()
