"""The part of random lives in which long bands are shelved, by redis-monitors that may die."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from random import Random
from typing import Any
from urllib.parse import unquote

import msgpack  # type: ignore[import-untyped]
from redis.asyncio import Redis

from crawlstream.errors import RedisUnavailable, ShelfUnavailable
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.shelves.shelf import Shelf
from crawlstream_frontier.shelves.stocking import Stocking
from support.frontier.bench import KEYS
from support.frontier.life import Life, Part
from support.frontier.world import HOUR_MS

SHELVE_FROM = (2, 2, 3, 4)
LONGEST_MS = 2_100
"""Time after which a page that was handed out and did not come back is handed out again."""
STOCKED = ("shelved", "restocked")


class Mortal:
    """Runs each call, and dies at the n-th: before it has taken effect, or after."""

    def __init__(self, random: Random) -> None:
        self._left = random.choice((1, 2, 3, 5, 100, 100, 100))
        self._has_effect = random.random() < 0.5

    async def run(self, what: Callable[[], Awaitable[Any]], error: type[Exception]) -> Any:
        """Return the answer, unless this is the moment to die."""
        self._left -= 1
        if self._left == 0 and not self._has_effect:
            raise error("dead")
        answer = await what()
        if self._left == 0:
            raise error("dead")
        return answer


class Shelving(Part):
    """Some redis-monitors, and a shelf: Redis itself, or a server of its own."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._chance = Random(repr(self.random.getstate()))
        """A generator of its own: adding it changed no random sequence of before."""
        self.is_used = self._chance.random() < 0.35
        if self.is_used:
            life.world = life.model.world = life.world.narrowed()
        self._shelve_from = self._chance.choice(SHELVE_FROM)
        self._server: Redis | None = None
        if self.is_used and self._chance.random() < 0.5:
            self._server = life.redis.neighbour()
        self._lasting = self._monitor(None)
        self._frozen: asyncio.Task[Any] | None = None
        self._thaw, self._cold = asyncio.Event(), asyncio.Event()

    async def read(self) -> Mapping[str, bytes]:
        """Return the chunks of the shelf's own server, by id."""
        if not self._server:
            return {}
        keys: list[Any] = await self._server.keys("*")
        values: list[Any] = await self._server.mget(keys) if keys else []
        return {
            key.decode().rsplit(":", 1)[1]: value for key, value in zip(keys, values, strict=True)
        }

    async def maybe(self) -> None:
        """Take a step that may happen during any other step of a life."""
        chance = self._chance.random()
        if chance < 0.4:
            await self._let(self._monitor(Mortal(self._chance)).step)
        elif chance < 0.5:
            await self._let(self._lasting.step)
        elif chance < 0.65 and not self._frozen:
            self._thaw.clear()
            self._cold.clear()
            frozen = self._monitor(Mortal(self._chance), is_frozen=True)
            self._frozen = asyncio.create_task(self._let(frozen.step))
            cold = asyncio.create_task(self._cold.wait())
            await asyncio.wait((self._frozen, cold), return_when=asyncio.FIRST_COMPLETED)
            cold.cancel()
        elif chance < 0.8:
            if self._frozen and self._chance.random() < 0.7:
                await self._overtake()
            await self._thaw_out()
        elif chance < 0.87 and self._server:
            await self._server.flushdb()
        await self._read_heads()

    async def _overtake(self) -> None:
        """Another redis-monitor does the work of the frozen one."""
        await self.redis.advance(LONGEST_MS)
        await self._let(self._lasting.step)

    async def _thaw_out(self) -> None:
        if self._frozen:
            self._thaw.set()
            await self._frozen
            self._frozen = None

    async def bring(self) -> None:
        """Carry until nothing is to be carried."""
        await self._thaw_out()
        for _ in range(100 * self.is_used):
            await self._let(self._lasting.step)
            if not await self.redis.zcard(KEYS.tag + "restock"):
                break
            await self.redis.advance(LONGEST_MS)
        await self._read_heads()

    async def end(self) -> None:
        """Everything is over: nothing is left on the shelf."""
        await self.bring()
        while await self.redis.exists(KEYS.tag + "abandoned_chunks"):
            await self._let(self._lasting.step)
        await self.redis.advance(2 * HOUR_MS)
        for _ in range(3 * self.is_used):
            await self._let(self._lasting.step)
        left = await self.read()
        assert not left, set(left)

    async def close(self) -> None:
        """However the life has ended, nothing of it goes on."""
        if self._frozen:
            self._frozen.cancel()
            await asyncio.gather(self._frozen, return_exceptions=True)
        if self._server:
            await self._server.aclose()

    async def _let(self, step: Callable[[], Awaitable[object]]) -> None:
        """Let a redis-monitor take a step, or die in it."""
        with contextlib.suppress(RedisUnavailable, ShelfUnavailable):
            await step()
        await self.settle_up()

    def _monitor(self, mortal: Mortal | None, *, is_frozen: bool = False) -> Stocking:
        """A redis-monitor; it knows nothing of others before it."""
        scripts: Any = Scripts(self.redis, KEYS)
        run = scripts.run

        async def run_or_die(operation: str, *args: Any) -> Any:
            if is_frozen and operation in STOCKED:
                self._cold.set()
                await self._thaw.wait()
            what = partial(self._noting, run, operation, *args)
            return await (mortal.run(what, RedisUnavailable) if mortal else what())

        scripts.run = run_or_die
        shelf: Any = Shelf(self._server, "shelf") if self._server else None
        for name in ("put", "get", "delete") if shelf and mortal else ():
            setattr(shelf, name, _mortally(mortal, getattr(shelf, name)))
        return Stocking(scripts, shelf, shelve_from=self._shelve_from, lost_after_s=0)

    async def _noting(self, run: Any, operation: str, *args: Any) -> Any:
        """Run an operation, and record in the model which chunks were lost."""
        if operation != "restocked":
            return await run(operation, *args)
        spider, tag, domain, _, entries = msgpack.unpackb(args[0], raw=True)
        name = b":".join((b"b", spider, tag, domain)).decode()
        before = await self.redis.llen(KEYS.tag + name)
        amount = int(
            (await self.redis.lindex(KEYS.tag + name.replace("b:", "bc:", 1), 0) or b"0 0").split()[
                1
            ]
        )
        answer = await run(operation, *args)
        if answer and not entries:
            self._lose(name.split(":", 3)[1:], before, amount)
        return answer

    def _lose(self, queue: list[str], at: int, amount: int) -> None:
        spider, tag, domain = queue
        priority = int(tag.partition("/")[2])
        ((key, items),) = (
            (key, items)
            for key, items in self.model.queues[unquote(spider), domain].items()
            if self.numbers[key[0]] == tag.partition("/")[0] and key[1] == priority
        )
        lost = [items[at + place] for place in range(amount)]
        for item in lost:
            items.remove(item)
        key[0].ledger["queued"] -= amount
        key[0].ledger["failed"] += amount
        self.model.owed["shelf_lost", key[0].crawl, key[0].run] += 1

    @property
    def numbers(self) -> Mapping[Any, str]:
        """The number of each crawl."""
        return self.life.numbers

    async def _read_heads(self) -> None:
        """How much of each band with chunks can be leased now."""
        await self.life.check()


def _mortally(mortal: Mortal | None, method: Any) -> Any:
    async def call(*args: Any) -> Any:
        assert mortal
        return await mortal.run(partial(method, *args), ShelfUnavailable)

    return call
