"""Gates of addresses and networks: the frontier learns from workers where domains are."""

from __future__ import annotations

from dataclasses import replace
from ipaddress import ip_address, ip_network
from random import Random

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.web.throttle_groups import AddressLimits, Groups
from redis_monitor import metrics
from redis_monitor.cluster_metrics import note_gates
from support.frontier.bench import KEYS, WIDE_OPEN, Bench, url_of
from support.frontier.lua import planted
from support.monitors import published
from support.windows import (
    AT_HOME,
    Machine,
    bursts,
    by_address,
    check_windows,
    gate_keys,
    group,
    in_gates,
    spaced,
)

pytest_plugins = ["support.frontier.fixtures"]


@pytest.mark.usefixtures("still")
async def test_a_thousand_names_on_one_machine_share_its_window(bench: Bench) -> None:
    """Each domain costs one more lease, once; no window of the machine has more than its rule."""
    names = [f"shop{n}.example" for n in range(1_000)]
    limit = bursts(20, 1)
    await bench.rule(spaced(10, 1), groups=by_address(limit))
    await bench.feed.seeds(*(f"{name}/1" for name in names), "other.org/1")
    machine = Machine(bench, bench.worker, dict.fromkeys(names, AT_HOME) | {"other.org": "::1"})
    done: list[Lease] = []
    while len(done) < 1_001:
        done += await machine.fetch(50)
        await bench.advance(137)
    assert {url_of(one) for one in done} == {f"{name}/1" for name in [*names, "other.org"]}
    assert machine.moved == 1_001
    check_windows(machine.log[AT_HOME], limit)
    sends = machine.log[AT_HOME]
    assert (sends[-1] - sends[0]) / 1_000 < 1.25 * len(names) / 20
    while await gate_keys(bench.redis):
        await bench.advance(1_001)
        assert await machine.fetch(50) == []


@pytest.mark.usefixtures("still")
async def test_the_wait_at_the_fullest_address_is_published(bench: Bench) -> None:
    """All addresses have a single series."""
    await bench.rule(WIDE_OPEN, groups=by_address(bursts(2, 10)))
    await note_gates(bench.frontier.rules)
    assert published(metrics.GATE_DOMAINS) == {("@addresses",): 0}
    names = [f"shop{n}.example" for n in range(12)]
    await bench.feed.seeds(*(f"{name}/{n}" for name in names for n in range(2)))
    places = {name: AT_HOME if number else "::1" for number, name in enumerate(names)}
    machine = Machine(bench, bench.worker, places)
    for _ in range(3):
        await machine.fetch(50)
    await note_gates(bench.frontier.rules)
    assert published(metrics.GATE_DOMAINS) == {("@addresses",): 11}
    assert published(metrics.GATE_WAIT) == {("@addresses",): 55}


@pytest.mark.usefixtures("still")
async def test_a_lease_that_is_given_back_unsent_costs_nothing(bench: Bench) -> None:
    """Charges neither domain nor gate for a lease that is returned unsent; its page is next."""
    await bench.rule(spaced(1, 60), groups=by_address(bursts(5, 1)))
    await bench.feed.seeds("a.example/1", "a.example/2")
    machine = Machine(bench, bench.worker, {"a.example": AT_HOME})
    assert await machine.fetch(5) == []
    (lease,) = await bench.worker.lease(5)
    assert (url_of(lease), lease.gate) == ("a.example/1", f"=@{AT_HOME}")


@pytest.mark.usefixtures("still")
async def test_a_site_that_moves_waits_at_its_new_address(bench: Bench) -> None:
    """A named group counts before networks, a network before the address, and some are free."""
    limit = bursts(1, 1_000)
    groups = Groups(
        {
            "named": group(limit, "named.example"),
            "net": replace(group(limit), networks=(ip_network("198.51.100.0/24"),)),
        },
        AddressLimits(rule=limit, excepted=(ip_network("203.0.113.0/24"),)),
    )
    await bench.rule(WIDE_OPEN, groups=groups)
    places = {"named.example": AT_HOME, "a.example": "198.51.100.1", "b.example": "198.51.100.9"}
    places |= {"c.example": AT_HOME, "free.example": "203.0.113.1"}
    await bench.feed.seeds(*(f"{name}/{n}" for name in places for n in range(3)))
    machine = Machine(bench, bench.worker, places)
    got = [one.domain for _ in range(4) for one in await machine.fetch(50)]
    free = ["free.example"] * 3
    assert sorted(got) == ["a.example", "c.example", *free, "named.example"]
    waiting = await in_gates(bench.redis)
    assert {name: sorted(found) for name, found in waiting.items()} == {
        "=named": ["named.example"],
        "=net": ["a.example", "b.example"],
        f"=@{AT_HOME}": ["c.example"],
    }
    places["b.example"] = places["c.example"] = "203.0.113.2"
    await bench.advance(1_000_001)
    got = [one.domain for _ in range(5) for one in await machine.fetch(50)]
    moved = [*["b.example"] * 3, *["c.example"] * 2]
    assert sorted(got) == ["a.example", *moved, "named.example"]


@pytest.mark.usefixtures("still")
async def test_networks_that_change_are_looked_at_again(bench: Bench) -> None:
    """Domains go at once when the limit of their address ends."""
    await bench.rule(WIDE_OPEN, groups=by_address(bursts(1, 1_000)))
    names = [f"shop{n}.example" for n in range(5)]
    await bench.feed.seeds(*(f"{name}/1" for name in names))
    machine = Machine(bench, bench.worker, dict.fromkeys(names, AT_HOME))
    assert [len(await machine.fetch(5)) for _ in range(3)] == [0, 1, 0]
    await bench.rule(WIDE_OPEN, groups=by_address(bursts(2, 1_000)))
    assert len(await machine.fetch(5)) == 1
    await bench.rule(WIDE_OPEN, groups=by_address(bursts(1, 1_000), f"{AT_HOME}/32"))
    assert len(await machine.fetch(5)) == 3
    await bench.rule(WIDE_OPEN)
    await bench.tend()
    assert await gate_keys(bench.redis) == []


LIMIT = bursts(5, 1)


async def crawl_machine(bench: Bench) -> Machine:
    """Fetch two pages of each of thirty domains on one machine, at most :data:`LIMIT`."""
    await bench.rule(WIDE_OPEN, groups=by_address(LIMIT))
    names = [f"shop{n}.example" for n in range(30)]
    await bench.feed.seeds(*(f"{name}/{n}" for name in names for n in range(2)))
    machine = Machine(bench, bench.worker, dict.fromkeys(names, AT_HOME))
    done: list[Lease] = []
    for _ in range(100):
        done += await machine.fetch(50)
        await bench.advance(200)
    assert {url_of(one) for one in done} == {f"{name}/{n}" for name in names for n in range(2)}
    assert len(done) == 60
    check_windows(machine.log[AT_HOME], LIMIT)
    return machine


BUGS = {
    "addresses have no rule": (
        "ruled[i] = string.sub(names[i], 1, 2) == ADDRESSES and ADDRESSES or names[i]",
        "ruled[i] = names[i]",
    ),
    "where a domain was found is not kept": (
        "redis.call('HSET', K.located, domain, gate)",
        "assert(gate)",
    ),
    "a domain may have more than its machine has left": (
        "return gate and gate.left < allowed and gate.left or allowed",
        "return gate and allowed or allowed",
    ),
}


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize(("right", "wrong"), BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(bench: Bench, right: str, wrong: str) -> None:
    """Finds each bug by the log of the machine, or by pages that are missing."""
    with planted(right, wrong), pytest.raises(AssertionError):
        await crawl_machine(bench)


@pytest.mark.usefixtures("still")
async def test_forgotten_addresses_cost_leases(bench: Bench) -> None:
    """Five of thirty are known at a time; the others are given back again, and none is lost."""
    with planted("MOST_LOCATED = 100000", "MOST_LOCATED = 5"):
        machine = await crawl_machine(bench)
    assert machine.moved > 30
    assert await bench.redis.hlen(f"{KEYS.tag}located") == 5


async def lose(bench: Bench, machine: Machine) -> None:
    """Send what a worker may, which dies unheard then; its pages come again once it is reaped."""
    lost = bench.another_worker("lost")
    leases = await lost.lease(5)
    groups = lost.session.groups
    assert groups is not None
    now = await bench.clock()
    for one in leases:
        at = machine.places[one.domain]
        if one.gate == groups.gate_at(one.domain, ip_address(at)):
            machine.log[at].append(now)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(3))
async def test_no_worker_exceeds_a_machine(bench: Bench, seed: int) -> None:
    """Three workers, names of three machines, some of which move; one more worker dies."""
    random = Random(seed)
    limit = bursts(4, 2, 3)
    await bench.rule(spaced(5, 1), groups=by_address(limit))
    names = [f"n{n}.example" for n in range(30)]
    places = {name: f"192.0.2.{random.randrange(3)}" for name in names}
    await bench.feed.seeds(*(f"{name}/{n}" for name in names for n in range(4)))
    machines = [Machine(bench, bench.another_worker(f"w{n}"), places) for n in range(3)]
    for machine in machines:
        machine.log = machines[0].log
    done = steps = 0
    while done < 120:
        steps += 1
        if steps == 40:
            await lose(bench, machines[0])
        if steps % 50 == 9:
            places[random.choice(names)] = f"192.0.2.{random.randrange(3)}"
        done += len(await random.choice(machines).fetch(random.randrange(1, 9)))
        await bench.advance(random.choice([0, 1, 50, 400]))
        await bench.tend()
    for sends in machines[0].log.values():
        check_windows(sends, limit)
