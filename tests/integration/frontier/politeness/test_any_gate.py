"""Leases with gates in any order of calls, against a naive model: each machine's own log."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import SentRequest
from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import WIDE_OPEN, Bench, Worker
from support.windows import bursts, check_windows, gate_keys, group, spaced

pytest_plugins = ["support.frontier.fixtures"]

PAGES, STEPS = 300, 250


@dataclass
class Machine:
    """Which requests a machine has seen, and which it is serving."""

    rule: ThrottleRule
    sent: list[int] = field(default_factory=list)
    in_flight: int = 0

    def check(self) -> None:
        """No window and no moment has more than the rule allows."""
        check_windows(self.sent, self.rule)
        assert self.in_flight <= self.rule.concurrency


@dataclass
class Held:
    """A lease, and what its worker has reported of it."""

    worker: Worker
    lease: Lease
    phase: str = "granted"


class AnyOrder:
    """Two workers and two machines; every method is a step by chance."""

    def __init__(self, bench: Bench, random: Random) -> None:
        self.bench, self.random = bench, random
        self.workers = [bench.worker, bench.another_worker("w2")]
        self.machines = {name: Machine(self.some_rule()) for name in ("one", "two")}
        self.held: list[Held] = []
        self.fed = self.done = 0

    def some_rule(self) -> ThrottleRule:
        """A small rule."""
        pick = self.random
        return bursts(pick.randint(1, 6), pick.choice([1, 3]), pick.randint(1, 5))

    def machine_of(self, lease: Lease) -> Machine | None:
        """The machine of a domain; None: it is alone on its own."""
        return self.machines.get(lease.domain.split(".")[1])

    async def feed(self) -> None:
        """More pages of both machines, and of others."""
        if self.fed < PAGES:
            zones = self.random.choices(["one", "two", "free"], k=12)
            names = [f"{self.random.randint(0, 9)}.{zone}.example" for zone in zones]
            pages = [f"{name}/{self.fed + i}" for i, name in enumerate(names)]
            self.fed += len(pages)
            await self.bench.feed.seeds(*pages, priority=self.random.choice([10, 50]))

    async def lease(self) -> None:
        """Requests are sent at once."""
        worker = self.random.choice(self.workers)
        for lease in await worker.lease(self.random.choice([1, 3, 20, 60])):
            if machine := self.machine_of(lease):
                machine.sent.append(await self.bench.clock())
                machine.in_flight += 1
            self.held.append(Held(worker, lease))

    async def report(self) -> None:
        """A request was sent, or has its response."""
        granted = [one for one in self.held if one.phase == "granted"]
        if granted:
            held = self.random.choice(granted)
            is_received = self.random.random() < 0.5
            held.phase = "received" if is_received else "sent"
            report = SentRequest(held.lease.token, 0, received=is_received)
            await held.worker.exchange(sent=[report])
            if is_received:
                self._leave(held)

    async def settle(self) -> None:
        """A page ends."""
        if self.held:
            held = self.held.pop(self.random.randrange(len(self.held)))
            if held.phase != "received":
                self._leave(held)
            await held.worker.settle(held.lease, sent_ms=0)
            self.done += 1

    async def advance(self) -> None:
        """Time passes."""
        await self.bench.advance(self.random.choice([1, 50, 400, 3_001]))

    async def restart(self) -> None:
        """Redis is started again."""
        await self.bench.pretend_restart()

    async def change(self) -> None:
        """Another table has the same groups: the order, and the others' members, differ."""
        names = self.random.sample(list(self.machines), k=2)
        groups = {
            name: group(self.machines[name].rule, f"{name}.example", *self.random.sample("ab", 1))
            for name in names
        }
        own = self.random.choice([WIDE_OPEN, spaced(3, 1), bursts(2, 1)])
        await self.bench.rule(own, groups=groups)

    async def step(self) -> None:
        """Do one of all these."""
        steps: list[Callable[[], Awaitable[None]]] = [
            *[self.feed] * 4,
            *[self.lease] * 10,
            *[self.report] * 4,
            *[self.settle] * 5,
            *[self.advance] * 4,
            self.restart,
            self.change,
        ]
        await self.random.choice(steps)()
        for machine in self.machines.values():
            machine.check()

    async def finish(self) -> None:
        """Everything that was fed is fetched in the end."""
        while self.held:
            await self.settle()
        for _ in range(2_000):
            if self.done == self.fed:
                return
            await self.lease()
            while self.held:
                await self.settle()
            for machine in self.machines.values():
                machine.check()
            await self.bench.advance(300)
        raise AssertionError("pages are stuck")

    def _leave(self, held: Held) -> None:
        if machine := self.machine_of(held.lease):
            machine.in_flight -= 1


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("seed", range(8))
async def test_no_order_of_calls_exceeds_a_gate(bench: Bench, seed: int) -> None:
    """Leases, reports, restarts and other tables by chance; nothing is stuck or left behind."""
    life = AnyOrder(bench, Random(seed))
    await life.change()
    for _ in range(STEPS):
        await life.step()
    await life.finish()
    await bench.advance(10_000)
    await bench.worker.lease(60)
    assert await gate_keys(bench.redis) == []
