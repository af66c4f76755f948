"""Commands for a running crawl: pause, resume, reprioritize; in bounded work."""

from __future__ import annotations

import time
from dataclasses import replace

from redis.asyncio import Redis

from crawlstream.keys import encode_id
from crawlstream.model.effects import Command, Seed
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.streams import Streams
from support.frontier.audit import audit, left_over
from support.frontier.bench import CRAWL, GRACE_MS, KEYS, Bench, links, open_bench, url_of
from support.waiting import WaitUntil

pytest_plugins = ["support.frontier.fixtures"]

OTHER = replace(CRAWL, crawlid="other")
HOUR_MS = 3_600_000


async def revisit_all(bench: Bench) -> None:
    """Resumed or reprioritized queues are where they should be."""
    await bench.tend()
    assert not await bench.redis.exists(KEYS.tag + "revisit")


# Pausing.


async def test_a_paused_crawl_is_not_leased_and_blocks_nobody(bench: Bench) -> None:
    """Its entries wait, whatever their priority; others of the same domain are served."""
    await bench.feed.seeds("a/1", "b/1", priority=100)
    await bench.feed.seeds("a/2", "a/3", crawl=OTHER, priority=1)
    await bench.feed.say("pause")
    assert await bench.worker.crawl_all() == ["a/2", "a/3"]
    state = await bench.state()
    assert (state.state, state.queued) == ("paused", 2)


async def test_a_resumed_crawl_goes_on_in_its_order(bench: Bench) -> None:
    """Bands come back as they were, with the entries that came while parked behind them."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(5)), maxdepth=1)
    (first,) = await bench.worker.lease()
    await bench.feed.say("pause")
    assert await bench.worker.lease() == []
    await bench.feed.seeds("a/5", "a/best", maxdepth=1)
    await bench.feed.seeds("a/best", priority=90)
    await bench.worker.settle(first, links=[links("a", ["child"]), links("b", ["child"])])
    assert await bench.worker.lease(100) == []
    await bench.feed.say("resume")
    await revisit_all(bench)
    order = await bench.worker.crawl_all()
    assert [url for url in order if url != "b/child"] == [
        *("a/best", "a/1", "a/2", "a/3", "a/4", "a/5", "a/best", "a/child")
    ]
    assert "b/child" in order


async def test_pages_under_way_end_well_while_their_crawl_is_paused(bench: Bench) -> None:
    """Children are admitted, retries and releases return, a dead worker's pages too."""
    await bench.feed.seeds("a/1", "a/2", "a/3", "a/4", maxdepth=1)
    done, again, back, _lost = await bench.worker.lease(4)
    await bench.feed.say("pause")
    await bench.worker.settle(done, links=[links("c", [1, 2])])
    await bench.worker.requeue(again)
    await bench.worker.release(back, delay_ms=500)
    await bench.blame(bench.worker.name, "")
    state = await bench.state()
    assert (state.done, state.queued, state.delayed, state.held) == (1, 4, 1, 0)
    await bench.advance(1_000)
    assert await bench.worker.lease(100) == []
    await bench.feed.say("resume")
    await revisit_all(bench)
    assert sorted(await bench.worker.crawl_all()) == ["a/2", "a/3", "a/4", "c/1", "c/2"]


async def test_pause_and_resume_take_effect_in_record_order(bench: Bench) -> None:
    """Applies pauses and resumes of a batch in record order; a repetition changes nothing."""
    feed = bench.feed
    records: list[Seed | Command] = [
        feed.command("pause"),
        feed.seed("a/1"),
        feed.command("pause"),
        feed.command("resume"),
        feed.command("pause"),
    ]
    batch = feed.batch(*records)
    await feed.frontier.intake.apply(batch)
    assert (await bench.state()).state == "paused"
    await feed.say("resume")
    assert (await feed.frontier.intake.apply(batch)).applied == 0
    assert (await bench.state()).state == "running"
    streams = Streams(bench.redis, KEYS, "reader")
    actions = await streams.actions(count=100, block_ms=0)
    assert [(one.name, one.run) for one in actions] == [
        *(("pause", None), ("pause", 1), ("resume", 1), ("pause", 1), ("resume", 1))
    ]


async def test_a_paused_run_does_not_finish(bench: Bench) -> None:
    """Does not finish a paused run, even an empty one, before its resume and the grace time."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.feed.say("pause")
    await bench.worker.settle(lease)
    await bench.advance(GRACE_MS * 10)
    await bench.tend()
    assert await bench.events() == ["crawl_started"]
    await bench.feed.say("resume")
    await bench.tend()
    assert await bench.events() == []
    await bench.advance(GRACE_MS)
    await bench.tend()
    assert await bench.events() == ["crawl_finished"]


async def test_a_paused_run_can_be_stopped_and_expires(bench: Bench, wait_until: WaitUntil) -> None:
    """Stops and expires a paused run with its counters, and leaves nothing behind."""
    await bench.feed.seeds("a/1", "a/2")
    await bench.feed.seeds("a/1", crawl=OTHER, expires=int(time.time()) + 1)
    await bench.feed.say("reprioritize", priority=100)
    await bench.feed.say("pause")
    await bench.feed.say("pause", OTHER)
    assert await bench.worker.lease() == []
    await bench.feed.say("stop")
    ended: list[str] = []

    async def both_ended() -> bool:
        await bench.tend()
        ended.extend(kind for kind in await bench.events() if kind != "crawl_started")
        return len(ended) == 2

    await wait_until(both_ended)
    assert ended == ["crawl_stopped", "crawl_expired"]
    for _ in range(3):
        await bench.advance(HOUR_MS)
        await bench.tend()
    assert {n for n in left_over(await audit(bench.redis)) if not n.startswith("stop:")} == set()


async def test_a_new_run_begins_unpaused_and_unmoved(bench: Bench) -> None:
    """A command belongs to the run that it was given for."""
    await bench.feed.seeds("a/1", priority=10)
    await bench.feed.say("reprioritize", priority=100)
    await bench.feed.say("pause")
    await bench.feed.say("stop")
    await bench.feed.seeds("a/2", priority=10)
    await bench.feed.seeds("a/3", crawl=OTHER, priority=20)
    assert (await bench.state()).state == "running"
    assert await bench.worker.crawl_all() == ["a/3", "a/2"]


async def test_steering_an_unknown_or_ended_crawl_changes_nothing(bench: Bench) -> None:
    """The action names no run; its answer does."""
    await bench.feed.seeds("a/1")
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    await bench.tend()
    for name in ("pause", "resume", "reprioritize"):
        await bench.feed.say(name, priority=5)
        await bench.feed.say(name, OTHER, priority=5)
        await bench.feed.say(name, None)
    streams = Streams(bench.redis, KEYS, "reader")
    assert {one.run for one in await streams.actions(count=100, block_ms=0)} == {None}
    assert (await bench.state()).state == "finished"


async def test_delayed_entries_of_a_paused_crawl_wait_too(bench: Bench) -> None:
    """Their time may come; they are leased after the resume."""
    later = time.time() + 5
    await bench.feed.seeds("a/1", not_before=later)
    await bench.feed.say("pause")
    await bench.advance(10_000)
    assert await bench.worker.lease() == []
    await bench.advance(10_000)
    assert (await bench.state()).pending == 1
    await bench.feed.say("resume")
    await revisit_all(bench)
    assert await bench.worker.urls() == ["a/1"]


async def test_a_resume_reaches_domains_that_are_parked_by_their_rule(bench: Bench) -> None:
    """A blocked domain stays blocked; when its rule changes, the resumed crawl is there."""
    await bench.feed.seeds("a/1", "b/1")
    await bench.rule(blacklist=["a"])
    await bench.feed.say("pause")
    assert await bench.worker.lease(10) == []
    await bench.feed.say("resume")
    await revisit_all(bench)
    assert await bench.worker.urls() == ["b/1"]
    await bench.rule()
    assert await bench.worker.urls() == ["a/1"]


async def test_a_resume_wakes_a_sleeping_worker(bench: Bench) -> None:
    """No worker polls: sleeping ones are woken by the work that is there again."""
    await bench.feed.seeds("a/1")
    await bench.feed.say("pause")
    assert await bench.worker.lease() == []
    async with bench.redis.pubsub() as pubsub:
        await pubsub.subscribe(KEYS.wake_channel(bench.worker.name))
        assert (await pubsub.get_message(timeout=10))["type"] == "subscribe"
        await bench.feed.say("resume")
        await revisit_all(bench)
        assert (await pubsub.get_message(timeout=10))["type"] == "message"


async def test_no_call_works_longer_because_much_is_paused(redis: Redis) -> None:
    """A thousand paused crawls in one domain, a thousand domains of one crawl: in steps."""
    bench = await open_bench(redis)
    crawls = [replace(CRAWL, crawlid=f"c{i}") for i in range(1_000)]
    for start in range(0, 1_000, 100):
        some = crawls[start : start + 100]
        await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl, priority=99) for crawl in some))
        await bench.feed.put(*(bench.feed.command("pause", crawl) for crawl in some))
    await bench.feed.seeds("a/last", crawl=OTHER, priority=1)
    worker, calls = bench.worker, 0
    got: list[str] = []
    while not got:
        before = int((await redis.info("commandstats"))["cmdstat_zrem"]["calls"])
        got, calls = await worker.urls(1), calls + 1
        after = int((await redis.info("commandstats"))["cmdstat_zrem"]["calls"])
        assert after - before < 900
    assert (got, calls > 1) == (["a/last"], True)
    await bench.feed.seeds(*(f"d{i}/1" for i in range(1_200)))
    await bench.feed.say("pause")
    assert await worker.lease(200) == []
    await bench.feed.say("resume")
    assert len([one for one in await bench.tend() if one.more]) >= 2
    assert len(await worker.urls(200)) == 200
    await audit(redis)


# Reprioritizing.


async def test_a_crawl_moves_with_all_that_is_queued_and_comes(bench: Bench) -> None:
    """Seeds, children and later seeds keep their distances, at the new height."""
    await bench.feed.seeds("a/1", "b/1", priority=50, maxdepth=1)
    await bench.feed.seeds("a/low", "b/low", priority=20)
    await bench.feed.seeds("a/2", "b/2", crawl=OTHER, priority=60)
    await bench.feed.say("reprioritize", priority=80)
    await revisit_all(bench)
    first = await bench.worker.lease(2)
    assert sorted(map(url_of, first)) == ["a/1", "b/1"]
    assert {lease.priority for lease in first} == {50}
    await bench.worker.settle(first[0], links=[links("a", ["child"], priority=40)])
    await bench.worker.settle(first[1])
    await bench.feed.seeds("b/later", priority=35)
    order = await bench.worker.crawl_all(want=1)
    assert order[:2] == ["a/child", "b/later"]
    assert (set(order[2:4]), set(order[4:])) == ({"a/2", "b/2"}, {"a/low", "b/low"})


async def test_a_crawl_can_be_lowered_below_others(bench: Bench) -> None:
    """Domains whose rank is out of date are corrected when their turn comes."""
    await bench.feed.seeds("a/1", "b/1", "c/1", priority=90)
    await bench.feed.seeds("a/2", "d/2", crawl=OTHER, priority=50)
    await bench.feed.say("reprioritize", priority=10)
    await revisit_all(bench)
    order = await bench.worker.crawl_all(want=1)
    assert set(order[:2]) == {"a/2", "d/2"}
    await audit(bench.redis)


async def test_a_crawl_moves_while_its_domains_wait(bench: Bench) -> None:
    """A domain that its rule holds back comes up with the new order."""
    await bench.rule(ThrottleRule(hits=1, window_s=1))
    await bench.feed.seeds("a/0", "a/1", priority=50)
    await bench.feed.seeds("a/2", crawl=OTHER, priority=60)
    assert await bench.worker.urls() == ["a/2"]
    await bench.feed.seeds("a/3", crawl=OTHER, priority=60)
    await bench.feed.say("reprioritize", priority=61)
    await revisit_all(bench)
    for expected in ("a/0", "a/1", "a/3"):
        await bench.worker.sent(*bench.worker.leases.values(), received=True)
        await bench.advance(1_100)
        assert await bench.worker.urls() == [expected]


async def test_the_last_word_on_a_priority_counts(bench: Bench) -> None:
    """Offsets do not add up: the best seed stands where the last request put it."""
    await bench.feed.seeds("a/1", priority=50)
    await bench.feed.seeds("a/2", crawl=OTHER, priority=60)
    for priority in (90, 90, 55):
        await bench.feed.say("reprioritize", priority=priority)
    await revisit_all(bench)
    assert await bench.worker.crawl_all(want=1) == ["a/2", "a/1"]


async def test_a_paused_crawl_can_be_moved(bench: Bench) -> None:
    """It stays where it is, and comes back at its new height."""
    await bench.feed.seeds("a/1", "b/1", priority=50)
    await bench.feed.seeds("a/2", "b/2", crawl=OTHER, priority=60)
    await bench.feed.say("pause")
    await bench.feed.say("reprioritize", priority=100)
    await revisit_all(bench)
    assert sorted(await bench.worker.urls(2)) == ["a/2", "b/2"]
    await bench.feed.seeds("a/3", "b/3", crawl=OTHER, priority=60)
    await bench.feed.say("resume")
    await revisit_all(bench)
    assert sorted(await bench.worker.urls(2)) == ["a/1", "b/1"]


async def test_links_handed_to_another_spider_are_parked_and_moved_too(bench: Bench) -> None:
    """The bands of a crawl are found whichever spider fetches them."""
    wanderer = bench.another_worker("w2", "wandering: x")
    await bench.feed.seeds("a/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("b", [1, 2], spiderid=wanderer.spiderid)])
    await bench.feed.say("pause")
    assert await wanderer.lease() == []
    await bench.feed.say("resume")
    await revisit_all(bench)
    assert await wanderer.urls() == ["b/1", "b/2"]
    assert not await bench.redis.hexists(f"{KEYS.tag}o:{encode_id(wanderer.spiderid)}", "b")
