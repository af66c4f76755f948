"""Random life of a small frontier, each step checked against the model and by the auditor."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

from support.frontier.audit import audit, left_over
from support.frontier.bench import open_bench
from support.frontier.caring import Caring
from support.frontier.feeding import Feeding
from support.frontier.life import Life
from support.frontier.shelving import Shelving
from support.frontier.spilling import Spilling
from support.frontier.surroundings import Surroundings
from support.frontier.witness import Witness
from support.frontier.working import Working
from support.frontier.world import DOMAINS, HOUR_MS, World


class Machine:
    """A random life, of all its parts."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._shelving = Shelving(life)
        self._feeding = Feeding(life)
        self._spilling = Spilling(life)
        self._working = Working(life, self._spilling, self._shelving)
        self._caring = Caring(life, self._spilling)
        self._surroundings = Surroundings(life)

    def _actions(self) -> dict[Callable[[], Awaitable[None]], int]:
        """Steps, and how often each happens."""
        return {
            self._feeding.feed: 20,
            self._working.exchange: self._life.world.exchanges,
            self._surroundings.pass_time: 15,
            self._caring.tend: 10,
            self._caring.crash: 4,
            self._caring.retire: 2,
            self._caring.reconcile: 3,
            self._surroundings.change_rules: 5,
            self._surroundings.restart: 3,
            self._surroundings.step_clock: 3,
            self._feeding.repeat_feed: 2,
            self._feeding.read_again: 4,
            self._spilling.recall: 9,
            self._spilling.repeat: 2,
            self._lose: 3,
        }

    async def _lose(self) -> None:
        """Lose some of the spilled links; the frontier finds out."""
        await self._spilling.lose()
        await self._caring.tend()

    async def live(self, steps: int) -> None:
        """Take random steps, then let everything come to its end."""
        try:
            await self._live(steps)
        finally:
            await self._shelving.close()

    async def _live(self, steps: int) -> None:
        actions = self._actions()
        self._life.shelf = self._shelving.read
        await self._surroundings.limit()
        await self._feeding.feed()
        for action in self._life.random.choices([*actions], [*actions.values()], k=steps):
            await action()
            await self._life.check()
            if self._shelving.is_used:
                await self._feeding.feed()
                await self._shelving.maybe()
        await self._end()

    async def _end(self) -> None:
        """Crawl all that is left; then nothing remains but what is permanent."""
        life = self._life
        await self._surroundings.open_up()
        await self._feeding.resume_all()
        while self._spilling.is_left:
            await self._spilling.recall()
        await self._lose()
        await life.redis.advance(70_000)
        await self._caring.tend()
        for spider in DOMAINS:
            await self._working.drain(life.bench.another_worker(f"last-{spider}", spider))
        for ms in (3_100, 61_000, HOUR_MS, HOUR_MS, HOUR_MS):
            await life.redis.advance(ms)
            await self._caring.tend()
        await self._shelving.end()
        state = await audit(life.redis)
        short_lived = ("stop:", "occasion:")
        left = {name for name in left_over(state) if not name.startswith(short_lived)}
        assert not left, left
        over = {"finished", "stopped", "expired"}
        assert all(one.state in over for one in life.model.generations)


async def run_machine(
    redis: Witness, seed: int, steps: int, world: Callable[[Random], World] = World.some
) -> None:
    """A random life from a seed number, in a world of this kind."""
    await redis.flushdb()
    random = Random(seed)
    life = Life(redis, await open_bench(redis), random, world(random))
    await Machine(life).live(steps)
