"""The base of all parts of a random life: the frontier, its model, and their comparison."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from random import Random

from crawlstream.model.effects import OutboxRecord
from support.frontier import bench as support
from support.frontier.audit import audit
from support.frontier.bench import GRACE_MS, Bench, Worker
from support.frontier.compare import compare
from support.frontier.model import Model
from support.frontier.values import Generation
from support.frontier.witness import Witness
from support.frontier.world import World

CHECKS_A_LISTING = 20
ENDINGS = {"crawl_finished", "crawl_stopped", "crawl_expired"}


class Life:
    """A frontier and its model; everything random comes from ``random``."""

    def __init__(self, redis: Witness, bench: Bench, random: Random, world: World) -> None:
        self.redis = redis
        self.bench = bench
        self.random = random
        self.world = world
        self.model = Model(support.WIDE_OPEN, self.world)
        self.workers: dict[str, Worker] = {}
        self.shelf: Callable[[], Awaitable[Mapping[str, bytes]]] = _nothing
        """Returns the chunks of the shelf's own server, by id."""
        self.numbers: dict[Generation, str] = {}
        """The number of each crawl, as the last look has found it."""
        self._checks = 0

    async def check(self) -> None:
        """Nothing is wrong in Redis, and everything is as the model says."""
        self.numbers = compare(await audit(self.redis), self.model, await self.shelf())
        self._checks += 1
        if self._checks % CHECKS_A_LISTING == 0:
            for generation in self.numbers:
                await self._check_waiting(generation)

    async def _check_waiting(self, generation: Generation) -> None:
        """The pages that a crawl's queries list are those that wait in the model."""
        bands = [band for bands in self.model.queues.values() for band in bands.values()]
        every = [item for band in bands for item in band]
        every += [item for *_, item in self.model.delayed]
        own = [item for item in every if item.of is generation and not item.is_over]
        for domain in {domain for _, domain in self.model.queues}:
            waiting = {item.url for item in own if item.domain == domain}
            steps = self.bench.frontier.waiting.urls([generation.crawl], domain)
            parts = [part async for part in steps]
            found = {url.removeprefix("http://") for part in parts for url in part.urls}
            # Chunks on a server of their own, and those of lost pages, are not read here.
            is_whole = not any(part.unread for part in parts)
            assert found == waiting if is_whole else found <= waiting, (found, waiting)

    async def settle_up(self) -> None:
        """Compare idle runs and the outbox, with its counters, with the model."""
        now = self.redis.now
        self.model.look_at_budgets()
        self.model.note_idle(now)
        for owed in await self.bench.owed() if self.redis.owed else ():
            if owed.kind in ENDINGS:
                self._check_ending(owed, now)
            self.model.owed[owed.kind, owed.crawl, owed.run] -= 1
        assert not any(self.model.owed.values()), self.model.owed
        self.model.owed.clear()

    def _check_ending(self, owed: OutboxRecord, now: int) -> None:
        (generation,) = (
            one
            for one in self.model.generations
            if (one.crawl, one.run) == (owed.crawl, owed.run)
            and one.state in {"running", "stopping", "expiring"}
        )
        assert not generation.left
        if generation.state == "running":
            assert not generation.is_paused
            assert generation.idle_since is not None
            assert generation.idle_since + GRACE_MS <= now, "too early"
        for name in ("admitted", "done", "failed", "redirected", "skipped", "stopped", "expired"):
            assert owed.counters[name] == generation.ledger[name], (name, owed, generation)
        assert dict(owed.reasons["filtered"]) == +generation.filtered, (owed, generation)
        assert dict(owed.reasons["skipped"]) == generation.skipped, (owed, generation)
        spent = owed.reasons["spent_domains"].get("domain_max_bytes", 0)
        assert spent == len(generation.spent), (owed, generation)
        assert owed.counters["bytes"] == generation.ledger["bytes"], (owed, generation)
        if generation.state == "expiring":
            assert owed.budget == generation.ended_by, (owed, generation)
        bodies = {
            **{f"d:{word}": n for word, n in owed.reasons["dropped"].items()},
            **{f"r:{word}": n for word, n in owed.reasons["reserved"].items()},
        }
        assert bodies == generation.bodies, (owed, generation)
        self.model.finish(generation, now)


async def _nothing() -> Mapping[str, bytes]:
    return {}


class Part:
    """A part of a random life: its steps, and what the model expects of them."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self.redis = life.redis
        self.bench = life.bench
        self.random = life.random
        self.world = life.world
        self.model = life.model
        self.workers = life.workers
        self.settle_up = life.settle_up
