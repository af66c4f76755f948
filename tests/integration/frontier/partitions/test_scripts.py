"""The scripts of partitions one by one: repetitions, gaps, no room, what a client may send."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.errors import FrontierFull, PositionGap
from crawlstream.model.partitions.messages import Question, Stamp, Version
from crawlstream_frontier.codec.link_records import pack_links
from support.partitions.two import Two, open_two

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    return await open_two(redis)


async def test_a_seed_is_stamped_again_and_taken_once(two: Two) -> None:
    """A caller that is behind asks again; one that is ahead takes nothing."""
    stamps = await two.feed()
    again = await two.parts[0].coordinator.enroll(two.batch(0, 2))
    assert {offset: stamp.run for offset, stamp in again.stamps.items()} == {0: 1, 1: 1}
    assert [again.stamps[0].version.number, stamps[0].version.number] == [2, 1]
    assert await two.parts[0].coordinator.enrolled() == {("incoming", 0): 2}
    taken = await two.parts[1].reading.take(replace(two.batch(0, 2), records=[]), {})
    assert taken.applied == 0
    taken = await two.parts[1].reading.take(replace(two.batch(1, 2)), again.stamps)
    assert (taken.applied, taken.unconfirmed) == (0, [])
    look = await two.parts[1].contexts.look([two.context(0)])
    assert look.reports[0].ledger["queued"] == 1


async def test_a_gap_writes_nothing(two: Two, redis: Redis) -> None:
    """Writes nothing after a gap, at coordinator or partition, and reports the position."""
    two.records = [replace(record, offset=record.offset + 5) for record in two.records]
    batch = replace(two.batch(0, 2), start=5, next=7)
    before = sorted(await redis.keys("*"))
    with pytest.raises(PositionGap) as gap:
        await two.parts[0].coordinator.enroll(batch)
    assert gap.value.position == 0
    stamps = {record.offset: Stamp(0, Version(1, 1), 1) for record in two.records}
    with pytest.raises(PositionGap):
        await two.parts[0].reading.take(batch, stamps)
    with pytest.raises(PositionGap):
        await two.parts[1].reading.apply(two.link_batch(start=3))
    assert sorted(await redis.keys("*")) == before


async def test_an_unknown_topic_has_no_position(two: Two) -> None:
    """A caller may not guess where to begin."""
    with pytest.raises(PositionGap) as gap:
        await two.parts[0].coordinator.enroll(replace(two.batch(0, 2), topic_id="another"))
    assert gap.value.position == -1


async def test_records_of_links_take_effect_once(two: Two) -> None:
    """Read again they are passed; of those that are in, and others behind them, none enters."""
    await two.feed()
    assert await two.confirm(0) == 1
    _, origin = await two.page(0)
    first, second = (pack_links(origin, two.links(url))[0] for url in "bc")
    reading = two.parts[1].reading
    done = await reading.apply(two.link_batch(first))
    assert (done.applied, done.ignored, done.admitted) == (1, 0, 1)
    with pytest.raises(PositionGap) as gap:
        await reading.apply(two.link_batch(first, second))
    assert gap.value.position == 1
    done = await reading.apply(two.link_batch(second, start=1))
    assert (done.applied, done.admitted) == (1, 0)  # The seed is known.
    done = await reading.apply(two.link_batch(first, second))
    assert (done.applied, done.ignored, done.admitted) == (0, 0, 0)
    ledger = (await two.parts[1].contexts.look([two.context(0)])).reports[0].ledger
    assert (ledger["queued"], ledger["z:duplicate"]) == (2, 1)


async def test_links_wait_while_redis_is_crowded(two: Two, redis: Redis) -> None:
    """Admits no links while Redis is crowded; the position stays, and they are read again."""
    await two.feed()
    await two.confirm(0)
    _, origin = await two.page(0)
    batch = two.link_batch(*pack_links(origin, two.links("b")))
    used = int((await redis.info("memory"))["used_memory"])
    await redis.config_set("maxmemory", used + used // 20)
    try:
        with pytest.raises(FrontierFull, match="MiB"):
            await two.parts[1].reading.apply(batch)
        seeds = replace(two.batch(0, 2), start=0)
        with pytest.raises(FrontierFull):
            await two.parts[1].reading.take(
                replace(seeds, next=9, records=[replace(two.records[1], offset=8)]),
                {8: Stamp(0, Version(1, 1), 1)},
            )
    finally:
        await redis.config_set("maxmemory", 0)
    assert (await two.parts[1].reading.apply(batch)).admitted == 1


async def test_nothing_is_leased_before_the_coordinator_has_answered(two: Two) -> None:
    """The exchange names the context, and its domain is asked for again soon."""
    await two.feed()
    session = two.parts[1].frontier.session("w", "link")
    answer = await session.exchange(want=10)
    assert not answer.leases
    assert answer.unconfirmed == [Question(two.context(0))]
    assert answer.next_due_ms is not None
    assert answer.next_due_ms <= 25
    assert await two.confirm(1) == 1
    await two.parts[1].advance(25)
    assert len((await session.exchange(want=10)).leases) == 1


async def test_links_wait_for_the_profile_of_their_page(two: Two) -> None:
    """A partition that never saw the seed asks its coordinator for the profile, and has it then."""
    await two.feed()
    await two.confirm(0)
    await two.confirm(1)
    lease, origin = await two.page(0)
    done = await two.parts[1].reading.apply(two.link_batch(*pack_links(origin, two.links("b"))))
    (question,) = done.unconfirmed
    assert question.profiles == {origin.profile}
    assert await two.confirm(1) == 1
    await two.parts[1].advance()
    urls = set()
    for _ in range(2):
        found = await two.lease(1)
        assert found
        urls.add((found[1], found[0].lease.profile.useragent))
    assert urls == {("b", lease.profile.useragent), ("c", "c")}
