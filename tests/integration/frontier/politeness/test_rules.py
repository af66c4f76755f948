"""The throttle table on its way into the frontier: versions, and when they take effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from crawlstream.model.crawl import Entry
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.wire.stored import encode_entry
from support.frontier.bench import WIDE_OPEN, Bench, links

pytest_plugins = ["support.frontier.fixtures"]

SLOW = ThrottleRule(hits=1, window_s=1_000)
FAST = ThrottleRule(hits=1, window_s=1)
BLOCKED = ThrottleRule(hits=0, window_s=1)
TABLE = ThrottleTable(
    default=FAST,
    rules={"a": replace(SLOW, scale=0.5), "b": WIDE_OPEN},
    blacklist=frozenset({"evil", "b"}),
    czxid=10,
    mzxid=20,
)


async def spend(bench: Bench) -> int | None:
    """Lease and settle whatever is allowed now; how long nothing more will be."""
    while True:
        answer = await bench.worker.exchange(want=50)
        if not answer.leases:
            return answer.next_due_ms
        await bench.worker.settle(*answer.leases, sent_ms=0)


async def test_a_table_is_read_back_as_it_was_written(unruled: Bench) -> None:
    """The rules in force can be shown to a person."""
    frontier = unruled.frontier
    assert await frontier.rules.table() is None
    assert await frontier.rules.copy(TABLE)
    assert await frontier.rules.table() == TABLE


async def test_an_older_table_never_replaces_a_newer_one(unruled: Bench) -> None:
    """The version of the node fences slow copiers; the same version is known already."""
    frontier = unruled.frontier
    assert await frontier.rules.copy(TABLE)
    assert not await frontier.rules.copy(replace(TABLE, default=SLOW, mzxid=19))
    assert await frontier.rules.copy(replace(TABLE, default=SLOW))
    assert await frontier.rules.table() == TABLE
    newer = replace(TABLE, default=SLOW, mzxid=21)
    assert await frontier.rules.copy(newer)
    assert await frontier.rules.table() == newer


async def test_the_table_of_another_node_must_be_adopted(unruled: Bench) -> None:
    """A ZooKeeper created again counts from the beginning: its rules need an operator's consent."""
    frontier = unruled.frontier
    await frontier.rules.copy(TABLE)
    anew = replace(TABLE, default=SLOW, czxid=1, mzxid=2)
    assert not await frontier.rules.copy(anew)
    assert not await frontier.rules.copy(replace(anew, czxid=99, mzxid=100))
    assert await frontier.rules.copy(anew, adopt=True)
    assert await frontier.rules.table() == anew
    assert await frontier.rules.copy(replace(anew, mzxid=3))
    assert not await frontier.rules.copy(TABLE)


async def test_a_lowered_rule_holds_at_the_next_lease(bench: Bench) -> None:
    """No grant is made by a rule that has been replaced."""
    await bench.rule(FAST)
    await bench.feed.seeds("a/1", "a/2", "a/3")
    await spend(bench)
    await bench.rule(FAST, {"a": SLOW})
    await bench.advance(1_000)
    due_ms = await spend(bench)
    assert due_ms is not None
    assert 990_000 < due_ms < 1_000_000


async def test_a_raised_rule_ends_the_wait(bench: Bench) -> None:
    """A domain that waits by a slow rule is looked at by the new one at once."""
    await bench.rule(FAST, {"a": SLOW})
    await bench.feed.seeds("a/1", "a/2")
    await spend(bench)
    await bench.advance(1_000)
    assert not await bench.worker.lease()
    await bench.rule(FAST)
    assert await bench.worker.urls() == ["a/2"]


async def test_a_new_default_reaches_every_domain(bench: Bench) -> None:
    """Thousands of domains that wait by the old default are looked at by the new one."""
    await bench.rule(replace(SLOW, concurrency=1))
    await bench.feed.seeds("a/0")
    (lease,) = await bench.worker.lease()
    groups = [links(f"d{i}", [1, 2]) for i in range(1_500)]
    await bench.worker.settle(lease, links=groups)
    assert await spend(bench) is not None
    await bench.advance(2_000)
    await bench.rule(FAST)
    await spend(bench)
    state = await bench.state()
    assert (state.done, state.queued) == (1 + 3_000, 0)


async def test_a_blacklisted_domain_is_parked_and_comes_back(bench: Bench) -> None:
    """Pages of a blocked domain stay, are never due, and are due when the block ends."""
    await bench.feed.seeds("evil/1", "evil/2", "good/1")
    await bench.rule(blacklist=["evil"])
    assert await bench.worker.urls() == ["good/1"]
    await bench.feed.seeds("evil/3")
    assert await spend(bench) is None
    await bench.rule()
    assert await bench.worker.urls() == ["evil/1", "evil/2", "evil/3"]


async def test_a_rule_of_no_hits_parks_too(bench: Bench) -> None:
    """An allowance of 0, by hits or by scale, waits for another rule."""
    await bench.rule(WIDE_OPEN, {"a": BLOCKED, "b": ThrottleRule(hits=9, window_s=1, scale=0.1)})
    await bench.feed.seeds("a/1", "b/1")
    assert await spend(bench) is None
    await bench.rule(WIDE_OPEN, {"a": BLOCKED})
    assert await bench.worker.urls() == ["b/1"]
    assert await spend(bench) is None
    await bench.rule(WIDE_OPEN)
    assert await bench.worker.urls() == ["a/1"]


async def test_a_default_of_no_hits_parks_everything_and_lets_it_go(bench: Bench) -> None:
    """Switching all crawling off and on again by the default rule loses nothing."""
    await bench.rule(BLOCKED)
    await bench.feed.seeds(*(f"d{i}/1" for i in range(150)))
    assert await spend(bench) is None
    await bench.rule()
    assert len(await bench.worker.urls(200)) == 150


async def test_a_parked_domain_without_entries_is_forgotten(bench: Bench) -> None:
    """A block on a domain whose crawl was stopped keeps nothing in Redis."""
    await bench.rule(blacklist=["a"])
    await bench.feed.seeds("a/1")
    assert await spend(bench) is None
    await bench.feed.put(bench.feed.command("stop"))
    await bench.tend()
    await spend(bench)
    await bench.tend()
    assert not await bench.redis.exists("{cs0}p:link", "{cs0}w:link", "{cs0}r:link")


async def test_an_entry_without_a_valid_url_is_leased(bench: Bench) -> None:
    """Rules that split its domain into sites do not stop a worker that is to let it fail."""
    await bench.rule(WIDE_OPEN, {"www.shop.com": FAST})
    await bench.feed.seeds("shop.com/seed")
    (seed,) = await bench.worker.lease()
    entries = [encode_entry(Entry(url=f"http://{host}/1")) for host in ("www.shop.com", "[")]
    group = replace(links("shop.com", "ab"), entries=entries)
    await bench.worker.session.put_links(seed.token, [group])
    await bench.worker.settle(seed)
    answer = await bench.worker.exchange(want=50)
    assert {lease.entry.url: lease.domain for lease in answer.leases} == {
        "http://www.shop.com/1": "www.shop.com",
        "http://[/1": "shop.com",
    }


async def test_thousands_of_rules_are_one_copy(bench: Bench) -> None:
    """A table of any size takes effect as a whole."""
    names = [f"d{i}" for i in range(6_000)]
    await bench.feed.seeds("d0/1", "d5999/1", "other/1")
    await bench.rule(WIDE_OPEN, dict.fromkeys(names, BLOCKED))
    assert await bench.worker.urls() == ["other/1"]
    await bench.rule(WIDE_OPEN, dict.fromkeys(names[:3_000], BLOCKED))
    assert await bench.worker.urls() == ["d5999/1"]
    await bench.rule(WIDE_OPEN)
    assert await bench.worker.urls() == ["d0/1"]


async def test_a_step_of_care_finishes_a_copy_that_was_cut_off(bench: Bench) -> None:
    """Looks at the domains although the copier of the rules died."""
    await bench.rule(SLOW)
    await bench.feed.seeds("a/1", "a/2")
    await spend(bench)
    await bench.advance(2_000)
    scripts: Any = bench.frontier.scripts
    run = scripts.run

    async def die_after(operation: str, *args: str | bytes | int) -> object:
        return 0 if operation == "revise" else await run(operation, *args)

    scripts.run = die_after
    await bench.rule(FAST)
    scripts.run = run
    assert not await bench.worker.lease()
    await bench.tend()
    assert await bench.worker.urls() == ["a/2"]


async def test_absurd_rules_do_not_break_a_lease(bench: Bench) -> None:
    """Numbers beyond any use are cut to what can be counted."""
    huge = ThrottleRule(hits=10**15, window_s=1e9, moderated=False, concurrency=10**12)
    tiny = ThrottleRule(hits=5, window_s=0.0)
    below = ThrottleRule(hits=-5, window_s=-1.0, concurrency=-1)
    await bench.rule(huge, {"a": tiny, "b": below, "": BLOCKED, "*": BLOCKED, "#": BLOCKED})
    await bench.feed.seeds("a/1", "b/1", "c/1")
    assert sorted(await bench.worker.urls()) == ["a/1", "c/1"]
