"""Groups: domains of one machine keep to one more limit, whose gate they wait in."""

from __future__ import annotations

import pytest

from crawlstream.model.crawl import CrawlKey, Lease
from crawlstream.model.effects import UNSENT, Outcome, Settle
from crawlstream.model.throttle_table import ThrottleRule
from redis_monitor import metrics
from redis_monitor.cluster_metrics import note_gates
from support.frontier.bench import WIDE_OPEN, Bench, Worker, links, url_of
from support.monitors import published
from support.windows import bursts, due_ms, gate_keys, group, in_gates, spaced

pytest_plugins = ["support.frontier.fixtures"]


async def one_group(
    bench: Bench, rule: ThrottleRule, *members: str, own: ThrottleRule = WIDE_OPEN
) -> None:
    """Let a single group be in force; every domain has the rule ``own``."""
    await bench.rule(own, groups={"hoster": group(rule, *members)})


def shops(number: int) -> list[str]:
    """Registrable domains of one suffix."""
    return [f"shop{n}.example" for n in range(number)]


async def finish(worker: Worker, *leases: Lease) -> None:
    """The requests were sent at their grant, and have ended."""
    await worker.settle(*leases, sent_ms=0)


@pytest.mark.usefixtures("still")
async def test_all_domains_of_a_group_share_its_window(bench: Bench) -> None:
    """Five of a hundred names, then none until the window is over; other domains go on."""
    await one_group(bench, bursts(5, 10), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(100)), "other.org/1")
    leases = await bench.worker.lease(50)
    assert [url_of(one) for one in leases] == [
        *(f"shop{n}.example/1" for n in range(5)),
        "other.org/1",
    ]
    await finish(bench.worker, *leases)
    assert await due_ms(bench.worker) == 10_001
    assert {name: len(found) for name, found in (await in_gates(bench.redis)).items()} == {
        "=hoster": 96  # The last one is known to be empty in its next turn.
    }
    await bench.advance(10_001)
    assert await bench.worker.urls() == [f"shop{n}.example/1" for n in range(5, 10)]


@pytest.mark.usefixtures("still")
async def test_concurrency_is_of_all_domains_together(bench: Bench) -> None:
    """A request that ends lets the next domain go."""
    await one_group(bench, bursts(1000, 1, 3), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(10)))
    leases = await bench.worker.lease(10)
    assert len(leases) == 3
    await bench.worker.sent(*leases)
    assert await bench.worker.lease(10) == []
    await bench.worker.sent(leases[0], received=True)
    assert await bench.worker.urls() == ["shop3.example/1"]


@pytest.mark.usefixtures("still")
async def test_the_rules_of_the_domains_still_apply(bench: Bench) -> None:
    """A domain that must wait for its own rule leaves the turn to the next."""
    await one_group(bench, bursts(100, 1), "example", own=spaced(1, 10))
    await bench.feed.seeds(*(f"{shop}/{n}" for shop in shops(3) for n in range(2)))
    leases = await bench.worker.lease(50)
    assert sorted(map(url_of, leases)) == [f"{shop}/0" for shop in shops(3)]
    await finish(bench.worker, *leases)
    assert await due_ms(bench.worker) == 10_000
    assert await in_gates(bench.redis) == {}


@pytest.mark.usefixtures("still")
async def test_a_higher_priority_goes_first_within_a_gate_and_beside_it(bench: Bench) -> None:
    """Serves higher priorities first in a gate and outside of it, also of pages that come later."""
    await one_group(bench, bursts(1, 10), "example")
    await bench.feed.seeds("shop0.example/1", "shop1.example/1", "shop2.example/1", priority=10)
    (first,) = await bench.worker.lease(5)
    await finish(bench.worker, first)
    await bench.feed.seeds("shop2.example/2", priority=70)
    await bench.feed.seeds("other.org/1", priority=50)
    await bench.feed.seeds("last.org/1", priority=5)
    await bench.advance(10_001)
    assert await bench.worker.urls() == ["shop2.example/2", "other.org/1", "last.org/1"]


@pytest.mark.usefixtures("still")
async def test_the_first_group_that_covers_a_domain_counts(bench: Bench) -> None:
    """A domain has one gate at most; a member covers all names below it."""
    await bench.rule(
        WIDE_OPEN,
        groups={
            "one": group(bursts(1, 10), "a.example"),
            "all": group(bursts(2, 10), "example", "a.example"),
        },
    )
    await bench.feed.seeds("a.example/1", "a.example/2", *(f"{shop}/1" for shop in shops(4)))
    assert await bench.worker.urls() == ["a.example/1", "shop0.example/1", "shop1.example/1"]


@pytest.mark.usefixtures("still")
async def test_two_spiders_share_the_gate(bench: Bench) -> None:
    """Each has domains of its own in it; the site sees one crawler."""
    wander = CrawlKey("wandering", "app", "crawl")
    await one_group(bench, bursts(4, 10), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(10)))
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(10)), crawl=wander)
    other = bench.another_worker("w2", "wandering")
    mine, theirs = await bench.worker.lease(3), await other.lease(10)
    assert (len(mine), len(theirs)) == (3, 1)
    await finish(bench.worker, *mine)
    await finish(other, *theirs)
    assert await due_ms(bench.worker) == await due_ms(other) == 10_001


@pytest.mark.usefixtures("still")
async def test_a_restart_counts_as_a_used_up_gate(bench: Bench) -> None:
    """Counts a gate as used up after a restart; its window begins again a second later."""
    await one_group(bench, bursts(5, 10), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(10)))
    await finish(bench.worker, *await bench.worker.lease(1))
    await bench.pretend_restart()
    waited = 0
    while not await bench.worker.lease(1):
        await bench.advance(500)
        waited += 500
    assert 11_001 <= waited <= 11_501


@pytest.mark.usefixtures("still")
async def test_what_a_dead_worker_held_counts_as_sent(bench: Bench) -> None:
    """Counts leases of a dead worker as sent when they are reaped, and frees their slots."""
    await one_group(bench, bursts(5, 10, 2), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(10)))
    assert len(await bench.worker.lease(5)) == 2
    await bench.advance(60_000)
    await bench.tend()
    other = bench.another_worker("w2")
    assert len(await other.lease(5)) == 2
    assert await other.lease(5) == []


@pytest.mark.usefixtures("still")
async def test_a_release_without_a_request_frees_the_gate(bench: Bench) -> None:
    """The allowance of the gate is free again at once, as that of the domain."""
    await one_group(bench, bursts(2, 10), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(4)))
    leases = await bench.worker.lease(5)
    ends = [
        Settle(token=one.token, outcome=Outcome.REDIRECTED, reason="", sent_ms=UNSENT)
        for one in leases
    ]
    await bench.worker.exchange(settles=ends)
    assert len(await bench.worker.lease(5)) == 2


@pytest.mark.usefixtures("still")
async def test_a_domain_leaves_its_group_while_it_waits(bench: Bench) -> None:
    """It is looked at again at once; the others keep waiting, and nothing remains behind."""
    await one_group(bench, bursts(1, 1_000), "a.example", "b.example", "c.example")
    await bench.feed.seeds(*(f"{name}.example/1" for name in "abc"))
    await finish(bench.worker, *await bench.worker.lease(5))
    assert await due_ms(bench.worker) == 1_000_001
    await one_group(bench, bursts(1, 1_000), "a.example", "b.example")
    assert await bench.worker.urls() == ["c.example/1"]
    await bench.rule(WIDE_OPEN)
    assert await bench.worker.urls() == ["b.example/1"]
    assert await bench.worker.lease(5) == []
    assert await gate_keys(bench.redis) == []


@pytest.mark.usefixtures("still")
async def test_a_domain_moves_to_another_group(bench: Bench) -> None:
    """It waits for the gate of the new one; its leases keep the gate that they used."""
    await bench.rule(
        WIDE_OPEN,
        groups={"one": group(bursts(9, 1, 1), "a.example"), "two": group(bursts(9, 1, 1), "b.org")},
    )
    await bench.feed.seeds("a.example/1", "a.example/2", "b.org/1", "b.org/2")
    leases = await bench.worker.lease(5)
    assert sorted(map(url_of, leases)) == ["a.example/1", "b.org/1"]
    await bench.rule(
        WIDE_OPEN,
        groups={"two": group(bursts(9, 1, 1), "a.example", "b.org"), "one": group(WIDE_OPEN)},
    )
    assert await bench.worker.lease(5) == []
    await finish(bench.worker, *[one for one in leases if one.domain == "a.example"])
    assert await bench.worker.lease(5) == []
    await finish(bench.worker, *[one for one in leases if one.domain == "b.org"])
    assert len(await bench.worker.lease(5)) == 1


@pytest.mark.usefixtures("still")
async def test_a_domain_leaves_for_a_group_that_names_it(bench: Bench) -> None:
    """The group that it waits in names a domain above it, and does not change."""
    one = group(bursts(1, 1_000), "example")
    await bench.rule(WIDE_OPEN, groups={"one": one})
    await bench.feed.seeds("a.example/1", "b.example/1", "c.example/1")
    await finish(bench.worker, *await bench.worker.lease(5))
    assert await due_ms(bench.worker) == 1_000_001
    await bench.rule(WIDE_OPEN, groups={"two": group(bursts(5, 1), "c.example"), "one": one})
    assert await bench.worker.urls() == ["c.example/1"]
    assert "c.example" not in (await in_gates(bench.redis))["=one"]


@pytest.mark.usefixtures("still")
async def test_what_a_gate_has_used_is_kept_for_its_own_window(bench: Bench) -> None:
    """Keeps the use of a gate for its own window, also if the rule of its domains is shorter."""
    await one_group(bench, bursts(1, 1_000), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(3)))
    await finish(bench.worker, *await bench.worker.lease(5))
    for _ in range(3):
        await bench.advance(61_000)
        await bench.tend()
        assert await bench.worker.lease(5) == []


@pytest.mark.usefixtures("still")
async def test_a_faster_rule_takes_effect_at_once(bench: Bench) -> None:
    """The gate is looked at again, with everything that waits in it."""
    await one_group(bench, bursts(1, 1_000), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(5)))
    await finish(bench.worker, *await bench.worker.lease(5))
    await one_group(bench, bursts(3, 1_000), "example")
    assert len(await bench.worker.lease(5)) == 2


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("how", ["stop", "pause"])
async def test_nothing_remains_in_a_gate_of_a_crawl_that_ends(bench: Bench, how: str) -> None:
    """Stopped, or paused, resumed and crawled to its end."""
    await one_group(bench, bursts(2, 10), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(20)))
    await finish(bench.worker, *await bench.worker.lease(5))
    await due_ms(bench.worker)
    await bench.feed.say(how)
    if how == "pause":
        await bench.advance(10_001)
        assert await bench.worker.lease(5) == []
        await bench.feed.say("resume")
        await bench.tend()
        for _ in range(9):
            await bench.advance(10_001)
            leases = await bench.worker.lease(5)
            assert len(leases) == 2
            await finish(bench.worker, *leases)
    await bench.tend()
    if how == "pause":
        await bench.advance(10_001)
        assert await bench.worker.lease(5) == []
    assert await gate_keys(bench.redis) == []


@pytest.mark.usefixtures("still")
async def test_ten_thousand_names_cost_a_lease_no_more_than_ten(bench: Bench) -> None:
    """A turn touches as many domains as it grants, however many wait in the gate."""
    await one_group(bench, bursts(4, 1), "example")
    costs: list[int] = []
    for number in (50, 2_000):
        await bench.feed.seeds(*(f"{shop}/{number}" for shop in shops(number)))
        while (await bench.worker.exchange(want=50)).next_due_ms == 0:
            await bench.worker.settle(*bench.worker.leases.values(), sent_ms=0)
        await bench.worker.settle(*bench.worker.leases.values(), sent_ms=0)
        await bench.advance(1_001)
        before = int((await bench.redis.info("stats"))["total_commands_processed"])
        assert len(await bench.worker.lease(50)) == 4
        after = int((await bench.redis.info("stats"))["total_commands_processed"])
        await bench.worker.settle(*bench.worker.leases.values(), sent_ms=0)
        costs.append(after - before)
    assert costs[1] <= costs[0] + 2


@pytest.mark.usefixtures("still")
async def test_links_that_are_found_wait_in_the_gate(bench: Bench) -> None:
    """Children of a page of one domain to others of the group."""
    await one_group(bench, bursts(2, 10), "example")
    await bench.feed.seeds("shop0.example/1")
    (lease,) = await bench.worker.lease(5)
    found = [links(shop, [1]) for shop in shops(4)[1:]]
    await bench.worker.settle(lease, links=found, sent_ms=0)
    assert len(await bench.worker.lease(5)) == 1
    assert (await bench.state()).queued == 2


@pytest.mark.usefixtures("still")
async def test_what_a_gate_costs_in_waiting_is_published(bench: Bench) -> None:
    """Five of a hundred go in ten seconds: the last waits for 19 windows; none, without groups."""
    await one_group(bench, bursts(5, 10), "example")
    await bench.feed.seeds(*(f"{shop}/1" for shop in shops(100)))
    await finish(bench.worker, *await bench.worker.lease(50))
    assert await due_ms(bench.worker) == 10_001
    (gate,) = await bench.frontier.rules.gates(["=hoster"])
    assert (gate.group, gate.waiting, gate.under_way, gate.next_ms) == ("hoster", 96, 0, 10_001)
    await note_gates(bench.frontier.rules)
    assert published(metrics.GATE_WAIT) == {("hoster",): 192}
    assert published(metrics.GATE_DOMAINS) == {("hoster",): 96}
    await bench.rule(WIDE_OPEN)
    await note_gates(bench.frontier.rules)
    assert published(metrics.GATE_WAIT) == {}
