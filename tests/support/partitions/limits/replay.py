"""Steps of the model of page limits, taken on the real scripts as well: both must come to the same.

The coordinator has hash tags of its own, so that it goes back by itself, as in the model.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from random import Random
from typing import Any

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys, Partitions
from crawlstream.model.crawl import CrawlKey, Entry
from crawlstream.model.effects import Links
from crawlstream.model.partitions.messages import ContextKey, LinkOrigin, Version
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.codec import credits as real
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import pack_links, read_links
from crawlstream_frontier.codec.values import unpack
from crawlstream_frontier.layout import create_partitions
from support.frontier.bench import fingerprint
from support.partitions.limits.credits import Account, CreditState, Draw, Granted, PageLimit
from support.partitions.real import LINKS, PRIORITY, Moment, Part
from support.partitions.system import Step

CONTEXT = ContextKey(CrawlKey("link", "app", "crawl"), 0)
NAME = FrontierKeys.crawl_field(CONTEXT.crawl)

_MOST_STEPS = 300
_WEIGHTS = {"find": 2.0, "give_back": 0.1, "give_back_late": 0.1, "ask_late": 0.3}
"""How likely a step is, as compared to others: what is granted ahead is to be there a while."""


class CreditReplay:
    """A walk through both."""

    def __init__(self, redis: Redis, random: Random) -> None:
        partitions = random.choice((1, 2, 2, 3))
        links = tuple(random.randrange(12) for _ in range(partitions))
        self.limit = random.choice((2, 6, 15, 40))
        self.system = PageLimit(
            links,
            self.limit,
            crashes=random.choice((0, 1, 2, 3)),
            late=random.choice((0, 2, 5)),
            ahead=2 * partitions,
            tells=True,
        )
        self.redis: Any = redis
        self.random = random
        self.state = self.system.begin()
        self.path: list[str] = []
        self.layouts = [Partitions("cs", partitions), Partitions("home", partitions)]
        self.parts = [Part(redis, self.layouts[0], place) for place in range(partitions)]
        self.coordinator = Part(redis, self.layouts[1], 0)
        self._draws: dict[Draw, real.Draw] = {}
        self._grants: dict[Granted, real.Grant] = {}
        self._moments: dict[int, Moment] = {}
        self._urls = count()

    async def walk(self) -> bool:
        """Take random steps in both until all is done; whether it came to that."""
        await self._begin()
        calm_after = self.random.choice((0, 40, 80))
        while len(self.path) < _MOST_STEPS:
            steps = [*self.system.steps(self.state)]
            choices = [step for step in steps if not step.is_fault]
            is_unspent = any(holder.account.unspent for holder in self.state.holders)
            likely = 0.2 if is_unspent else 0.03
            if len(self.path) <= calm_after and self.random.random() < likely:
                choices = [step for step in steps if step.is_fault] or choices
            elif self.random.random() < 0.9:
                choices = [step for step in choices if step.after != self.state] or choices
            if self.system.is_done(self.state) and len(self.path) > calm_after:
                return True
            await self._take(_choice(self.random, choices))
        return False

    async def _begin(self) -> None:
        """Install the frontier in an empty Redis; the coordinator counts allowances not drawn."""
        await self.redis.flushdb()
        for layout in self.layouts:
            await create_partitions(self.redis, layout)
        for part in [*self.parts, self.coordinator]:
            await part.begin(0)
        await self.coordinator.coordinator.restore(self.coordinator.epochs[1], [])
        for place in range(len(self.parts)):
            await self._counted(place)

    async def _take(self, step: Step[CreditState]) -> None:
        self.path.append(step.name)
        effect: Callable[[Step[CreditState]], Awaitable[Any]] = getattr(self, "_" + step.name)
        await effect(step)
        self.state = step.after
        for place in range(len(self.parts)):
            await self._compare(place)
        if len(self.state.coordinator.counted) == len(self.parts):
            await self._repeat_an_old_draw()
            await self._compare_coordinator()

    # Steps of partitions.

    async def _find(self, step: Step[CreditState]) -> None:
        place: Any = step.about
        url = f"http://{self._domain(place)}/{next(self._urls)}"
        links = Links(
            domain=self._domain(place),
            priority=PRIORITY,
            fingerprints=[fingerprint(url)],
            entries=[encode_entry(Entry(url=url))],
        )
        origin = LinkOrigin(
            context=CONTEXT,
            version=Version(1, 1),
            spiderid="link",
            profile="0" * 16,
            domain_max_pages=None,
            max_pages=self.limit,
        )
        reading = self.parts[place].reading
        offset = await reading.begin(LINKS, place, 0)
        (value,) = pack_links(origin, [links])
        batch = LinkBatch(
            topic_id=LINKS,
            kafka_partition=place,
            start=offset,
            next=offset + 1,
            records=[read_links(offset, value)],
        )
        applied = await reading.apply(batch)
        before, after = self.state.holders[place], step.after.holders[place]
        is_short = any(question.is_of_credits for question in applied.unconfirmed)
        assert is_short == (after.limbo > before.limbo)

    def _domain(self, place: int) -> str:
        names = (f"d{n}.example" for n in count())
        return next(name for name in names if self.layouts[0].of(name) == place)

    async def _ask(self, step: Step[CreditState]) -> None:
        """A partition requests or returns credits, and the coordinator receives that at once."""
        about: Any = step.about
        draw, _ = about
        self._draws[draw] = await self._drawn(draw)
        await self._draw(step)

    _give_back = _ask

    async def _ask_late(self, step: Step[CreditState]) -> None:
        draw: Any = step.about
        self._draws[draw] = await self._drawn(draw)

    _give_back_late = _ask_late

    async def _drawn(self, draw: Draw) -> real.Draw:
        contexts = self.parts[draw.partition].contexts
        found = await contexts.count(CONTEXT, give_back=True)
        assert found.wanted == draw.wanted
        return found

    async def _granted(self, step: Step[CreditState]) -> None:
        granted: Any = step.about
        contexts = self.parts[granted.partition].contexts
        while (await contexts.granted(CONTEXT, self._grants[granted])).ready:
            pass

    # Steps of the coordinator.

    async def _draw(self, step: Step[CreditState]) -> None:
        about: Any = step.about
        draw, granted = about
        asked = {draw.partition: self._draws[draw]._replace(limit=self.limit)}
        grant = await self.coordinator.coordinator.draw(CONTEXT, asked, asker=draw.partition)
        assert isinstance(grant, real.Grant)
        assert grant.total == granted.total
        assert grant.elsewhere == granted.elsewhere
        assert (grant.reached == self.limit) == granted.is_over
        self._grants[granted] = grant

    async def _repeat_an_old_draw(self) -> None:
        """Repeat a draw that the model does not receive: it changes nothing."""
        known = self.state.coordinator.accounts
        for draw, asked in self._draws.items():
            if draw.account[:2] < known[draw.partition][:2]:
                draws = {draw.partition: asked._replace(limit=self.limit)}
                await self.coordinator.coordinator.draw(CONTEXT, draws, asker=draw.partition)
                return

    async def _count(self, step: Step[CreditState]) -> None:
        place: Any = step.about
        await self._counted(place)

    async def _counted(self, place: int) -> None:
        epoch = max(self.coordinator.epochs.values())
        draw = await self.parts[place].contexts.count(CONTEXT, coordinator_epoch=epoch)
        draws = {place: draw._replace(limit=self.limit, wanted=0)}
        await self.coordinator.coordinator.draw(CONTEXT, draws, asker=place, counted_in=epoch)

    # Steps of time.

    def _part(self, place: int) -> Part:
        return [*self.parts, self.coordinator][place]

    async def _freeze(self, step: Step[CreditState]) -> None:
        place: Any = step.about
        self._moments[place] = await self._part(place).moment()

    async def _crash(self, step: Step[CreditState]) -> None:
        place: Any = step.about
        part = self._part(place)
        await part.go_back(self._moments.pop(place, None), step.after.lives[place])
        if part is self.coordinator:
            assert await part.coordinator.restore(max(part.epochs.values()), [])
            asked = {0: (await self.parts[0].contexts.count(CONTEXT))._replace(limit=self.limit)}
            assert isinstance(await part.coordinator.draw(CONTEXT, asked, asker=0), real.NoGrant)

    # Comparison of both.

    async def _compare(self, place: int) -> None:
        part, holder = self.parts[place], self.state.holders[place]
        found: dict[bytes, bytes] = await self.redis.hgetall(part.keys.tag + "credit:1")
        values = {field.decode(): int(value) for field, value in found.items()}
        number, drawn, unspent = (values.get(f, 0) for f in ("number", "drawn", "unspent"))
        epoch = part.epochs[holder.account.life]
        if values.get("life", epoch) != epoch:
            drawn, unspent = drawn - unspent, 0
        assert Account(holder.account.life, number, drawn, unspent) == holder.account
        limbo = await self.redis.llen(part.keys.tag + "limbo:1")
        assert limbo == holder.limbo
        assert await self.redis.scard(part.keys.tag + "limbo_marks:1") == limbo
        assert int(await self.redis.hget(part.keys.tag + "x:1", "admitted") or 0) == holder.admitted
        assert (values.get("over", 0) == self.limit) == holder.is_refused

    async def _compare_coordinator(self) -> None:
        packed = await self.redis.hget(self.coordinator.keys.tag + "credits", f"{NAME} 0")
        accounts = unpack(packed)[b"accounts"]
        pairs = accounts.items() if isinstance(accounts, dict) else enumerate(accounts, 1)
        epochs = [{epoch: life for life, epoch in part.epochs.items()} for part in self.parts]
        known = {place: Account(epochs[place][life], *rest) for place, (life, *rest) in pairs}
        assert known == dict(enumerate(self.state.coordinator.accounts))


def _choice(random: Random, steps: list[Step[CreditState]]) -> Step[CreditState]:
    """Any of them; the same in each process, where sets are in another order."""
    names = sorted({step.name for step in steps})
    (name,) = random.choices(names, [_WEIGHTS.get(name, 1.0) for name in names])
    alike = sorted((step for step in steps if step.name == name), key=lambda step: repr(step.about))
    return random.choice(alike)


async def replay_credits(redis: Redis, random: Random) -> bool:
    """Walk through both; whether everything came to its end. AssertionError: they differ."""
    replay = CreditReplay(redis, random)
    try:
        return await replay.walk()
    except Exception as error:
        error.add_note(f"limit {replay.limit}: {' '.join(replay.path)}")
        raise
