"""Seeds of unavailable coordinators are read later: each once, in any order."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.errors import PositionGap
from crawlstream.model.effects import Seed
from crawlstream.model.partitions.messages import SeedsOf, Stamp
from support.partitions.planting import WalkBug, is_found
from support.partitions.real import Part
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")

COORDINATORS = 3
SEEDS = 12


class Log:
    """Seeds of several coordinators for one partition, and how they are brought to it."""

    def __init__(self, two: Two, stamp: Stamp) -> None:
        self._two = two
        self.part: Part = two.parts[1]
        seeds = [r for r in two.records if isinstance(r, Seed) and two.partitions.of(r.domain) == 1]
        template = seeds[0]
        self.seeds = [
            replace(template, offset=n, fingerprint=f"{n:0{len(template.fingerprint)}d}")
            for n in range(SEEDS)
        ]
        self.stamps = dict.fromkeys(range(SEEDS), stamp)
        self.coordinators = {n: n % COORDINATORS for n in range(SEEDS)}

    async def bring(self, start: int, end: int, *absent: int) -> int:
        """Some of them, without those of some coordinators; answers how many entered."""
        seeds = [s for s in self.seeds[start:end] if self.coordinators[s.offset] not in absent]
        batch = replace(self._two.batch(0, 1), start=start, next=end, records=seeds)
        seeds_of = SeedsOf(COORDINATORS, self.coordinators, frozenset(absent))
        return (await self.part.reading.take(batch, self.stamps, seeds_of)).applied

    async def positions(self) -> tuple[int, dict[int, int]]:
        """The position, and those of coordinators that are late."""
        reached = await self.part.reading.reached("incoming", 0, 0)
        return reached.position, dict(reached.late)


async def opened(redis: Redis) -> Log:
    """Nothing has been read of it."""
    two = await open_two(redis)
    stamps = (await two.parts[0].coordinator.enroll(two.batch(0, 2))).stamps
    return Log(two, stamps[0])


@pytest.fixture
async def log(redis: Redis) -> Log:
    """Nothing has been read of it."""
    return await opened(redis)


async def test_seeds_of_an_unavailable_coordinator_are_read_later(log: Log) -> None:
    """Its position stays, the others go on, and it is forgotten once it is where they are."""
    assert await log.bring(0, 6, 1) == 4
    assert await log.positions() == (6, {1: 0})
    with pytest.raises(PositionGap) as gap:
        await log.bring(6, 9)
    assert gap.value.position == 0
    assert await log.bring(6, 9, 1) == 2
    assert await log.bring(0, 4, 0, 2) == 1
    assert await log.positions() == (9, {1: 4})
    assert await log.bring(4, 9, 0, 2) == 2
    assert await log.positions() == (9, {})
    assert await log.bring(0, 9) == 0
    assert await log.bring(9, 12) == 3


@pytest.mark.parametrize("seed", range(20))
async def test_each_enters_once_in_any_order(log: Log, seed: int) -> None:
    """Missing records are a gap, from any offset and without any coordinators."""
    await bring_at_random(log, random.Random(seed))


BUGS = {
    "seeds of a coordinator that is away are passed": WalkBug(
        right="local after = is_absent[coordinator] and before or math.max(before, offset)",
        wrong="local after = math.max(before, offset)",
    ),
    "seeds of a late coordinator may be missing": WalkBug(
        right="if start > reading.lowest() then",
        wrong="if start > reading.position then",
    ),
    "seeds of a late coordinator count as read with the others": WalkBug(
        right="record[OFFSET] >= reading.of(record[COORDINATOR])",
        wrong="record[OFFSET] >= reading.position",
    ),
    "a coordinator that has caught up stays late": WalkBug(
        right="elseif after == position and late_of[coordinator] then",
        wrong="elseif after == position and not late_of[coordinator] then",
    ),
    "the position goes back": WalkBug(
        right="local position = math.max(reading.position, offset)",
        wrong="local position = offset",
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_bug_is_found(redis: Redis, bug: WalkBug) -> None:
    """Some order of bringing them shows it."""

    async def walk(chance: random.Random) -> None:
        await bring_at_random(await opened(redis), chance)

    assert await is_found(bug, walk, 40)


async def bring_at_random(log: Log, chosen: random.Random) -> None:
    """In the end each has entered, and at any time those below their positions."""
    entered = 0
    for _ in range(60):
        start = chosen.randrange(SEEDS)
        end = chosen.randrange(start + 1, SEEDS + 1)
        absent = chosen.sample(range(COORDINATORS), chosen.randrange(COORDINATORS))
        before = await log.positions()
        try:
            entered += await log.bring(start, end, *absent)
        except PositionGap:
            assert await log.positions() == before
        after = await log.positions()
        for coordinator in range(COORDINATORS):
            was, now = (at[1].get(coordinator, at[0]) for at in (before, after))
            assert now >= was
            assert now == was or (start <= was and coordinator not in absent)
        assert entered == sum(
            offset < after[1].get(coordinator, after[0])
            for offset, coordinator in log.coordinators.items()
        )
    for coordinator in sorted((await log.positions())[1]):
        others = [other for other in range(COORDINATORS) if other != coordinator]
        position, late = await log.positions()
        entered += await log.bring(late[coordinator], position, *others)
    position, late = await log.positions()
    assert not late
    entered += await log.bring(position, SEEDS) if position < SEEDS else 0
    assert entered == SEEDS
