"""The scripts of partitions one by one: repetitions, gaps, no room, what a client may send."""

from __future__ import annotations

from dataclasses import replace

import pytest
from redis.asyncio import Redis

from crawlstream.errors import FrontierFull, NotRestored, PositionGap
from crawlstream.frontier.codec.link_records import pack_links, read_links
from crawlstream.frontier.partitions.confirm import confirm, is_over, summed
from crawlstream.frontier.partitions.reading import LinkBatch
from crawlstream.frontier.streams import Streams
from crawlstream.model.crawl import Hold
from crawlstream.model.effects import Command, OutboxRecord, Outcome, Seed, Settle
from crawlstream.model.partitions.messages import LinkOrigin, Question, Stamp, Tell, Version
from crawlstream.model.recurring.schedule import Occasion
from support.partitions.real import LINKS, RealCluster
from support.partitions.values import Cluster

pytest_plugins = ("support.frontier.fixtures",)
pytestmark = pytest.mark.usefixtures("still")

TWO = Cluster({"a": 0, "b": 1, "c": 1}, {"a": "b"}, "ac")


class Two(RealCluster):
    """Two partitions whose seeds are where they belong, and that have their labels."""

    async def feed(self) -> dict[int, Stamp]:
        """Enroll and take all seeds."""
        stamps = dict((await self.parts[0].home.enroll(self.batch(0, 2))).stamps)
        for place, part in enumerate(self.parts):
            await part.reading.begin("incoming", 0, 0)
            records = [r for r in self.records if isinstance(r, Seed) and self._is_in(r, place)]
            batch = replace(self.batch(0, 2), records=records)
            await part.reading.take(batch, stamps)
        return stamps

    def _is_in(self, seed: Seed, place: int) -> bool:
        return self.partitions.of(seed.domain) == place

    async def confirm(self, place: int) -> int:
        """Ask the home for a partition's label."""
        contexts = self.parts[place].contexts
        question = Question(self.context(0), await self.wanted(place))
        epoch = await contexts.epoch()
        return await confirm(lambda _: self.parts[0].home, contexts, epoch, [question])

    async def page(self, place: int) -> tuple[Hold, LinkOrigin]:
        """Some page of a partition, and what its links carry."""
        found = await self.lease(place)
        assert found
        origin = found[0].session.origin(found[0].hold.token)
        assert origin
        return found[0].hold, origin

    def link_batch(self, *values: bytes, start: int = 0) -> LinkBatch:
        """Records of the links of partition 1."""
        records = [read_links(start + n, value) for n, value in enumerate(values)]
        return LinkBatch(
            topic_id=LINKS,
            kafka_partition=1,
            start=start,
            next=start + len(values),
            records=records,
        )


@pytest.fixture
async def two(redis: Redis) -> Two:
    """Two partitions with nothing in them."""
    real = Two(redis, TWO)
    await real.begin()
    for part in real.parts:
        await part.redis.hset(part.keys.positions(), "incoming:0", 0)
    return real


async def test_a_seed_is_stamped_again_and_taken_once(two: Two) -> None:
    """Whoever is behind asks again; whoever is ahead takes nothing."""
    stamps = await two.feed()
    again = await two.parts[0].home.enroll(two.batch(0, 2))
    assert {offset: stamp.run for offset, stamp in again.stamps.items()} == {0: 1, 1: 1}
    assert [again.stamps[0].version.number, stamps[0].version.number] == [2, 1]
    assert await two.parts[0].home.enrolled() == {("incoming", 0): 2}
    taken = await two.parts[1].reading.take(replace(two.batch(0, 2), records=[]), {})
    assert taken.applied == 0
    taken = await two.parts[1].reading.take(replace(two.batch(1, 2)), again.stamps)
    assert (taken.applied, taken.unconfirmed) == (0, [])
    look = await two.parts[1].contexts.look([two.context(0)])
    assert look.reports[0].ledger["queued"] == 1


async def test_a_gap_writes_nothing(two: Two, redis: Redis) -> None:
    """Neither at the home nor where a seed or a link belongs; the position is said."""
    two.records = [replace(record, offset=record.offset + 5) for record in two.records]
    batch = replace(two.batch(0, 2), start=5, next=7)
    before = sorted(await redis.keys("*"))
    with pytest.raises(PositionGap) as gap:
        await two.parts[0].home.enroll(batch)
    assert gap.value.position == 0
    stamps = {record.offset: Stamp(0, Version(1, 1), 1) for record in two.records}
    with pytest.raises(PositionGap):
        await two.parts[0].reading.take(batch, stamps)
    with pytest.raises(PositionGap):
        await two.parts[1].reading.apply(two.link_batch(start=3))
    assert sorted(await redis.keys("*")) == before


async def test_an_unknown_topic_has_no_position(two: Two) -> None:
    """Nobody may guess where to begin."""
    with pytest.raises(PositionGap) as gap:
        await two.parts[0].home.enroll(replace(two.batch(0, 2), topic_id="another"))
    assert gap.value.position == -1


async def test_records_of_links_take_effect_once(two: Two) -> None:
    """Read again from before the position they are passed; what comes behind them enters."""
    await two.feed()
    assert await two.confirm(0) == 1
    _, origin = await two.page(0)
    first, second = (pack_links(origin, two.links(url))[0] for url in "bc")
    reading = two.parts[1].reading
    done = await reading.apply(two.link_batch(first))
    assert (done.applied, done.ignored, done.admitted) == (1, 0, 1)
    done = await reading.apply(two.link_batch(first, second))
    assert (done.applied, done.admitted) == (1, 0)  # The seed is known.
    done = await reading.apply(two.link_batch(first, second))
    assert (done.applied, done.ignored, done.admitted) == (0, 0, 0)
    ledger = (await two.parts[1].contexts.look([two.context(0)])).reports[0].ledger
    assert (ledger["queued"], ledger["z:duplicate"]) == (2, 1)


async def test_links_wait_while_redis_is_crowded(two: Two, redis: Redis) -> None:
    """Nothing enters and the position stays, so that they are read again."""
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


async def test_nothing_is_leased_before_the_home_was_asked(two: Two) -> None:
    """The exchange names the context, and its domain is asked for again soon."""
    await two.feed()
    session = two.parts[1].frontier.session("w", "link")
    answer = await session.exchange(want=10)
    assert not answer.holds
    assert answer.unconfirmed == [Question(two.context(0))]
    assert answer.next_due_ms is not None
    assert answer.next_due_ms <= 25
    assert await two.confirm(1) == 1
    await two.parts[1].advance(25)
    assert len((await session.exchange(want=10)).holds) == 1


async def test_links_wait_for_the_profile_of_their_page(two: Two) -> None:
    """A partition that never saw the seed asks its home for the profile, and has it then."""
    await two.feed()
    await two.confirm(0)
    await two.confirm(1)
    hold, origin = await two.page(0)
    done = await two.parts[1].reading.apply(two.link_batch(*pack_links(origin, two.links("b"))))
    (question,) = done.unconfirmed
    assert question.profiles == {origin.profile}
    assert await two.confirm(1) == 1
    await two.parts[1].advance()
    urls = set()
    for _ in range(2):
        found = await two.lease(1)
        assert found
        urls.add((found[1], found[0].hold.profile.useragent))
    assert urls == {("b", hold.profile.useragent), ("c", "c")}


async def test_a_paused_run_leases_nothing_anywhere(two: Two) -> None:
    """Pause and resume reach a partition by what it is told; then it asks, and goes on."""
    await two.feed()
    await two.confirm(1)
    for offset, action in ((2, "pause"), (3, "resume")):
        await _say(two, offset, action)
        await two.parts[1].contexts.tell([t for t in await _told(two) if t.partition == 1])
        assert await two.lease(1) is None
        await two.confirm(1)
        await two.parts[1].advance()
        found = await two.lease(1)
        assert (found is not None) == (action == "resume")


async def test_a_reprioritized_run_is_shifted_everywhere(two: Two, redis: Redis) -> None:
    """By as much as its best seed has to move."""
    await two.feed()
    await _say(two, 2, "reprioritize", priority=90)
    await two.confirm(1)
    assert await redis.hgetall(two.parts[1].keys.tag + "shifts") == {b"1": b"40"}


async def test_a_run_ends_once_with_the_counters_of_all(two: Two, redis: Redis) -> None:
    """The world is told by the home's outbox; the next run is labelled when Kafka has that."""
    await two.feed()
    for place, part in enumerate(two.parts):
        await two.confirm(place)
        found = await two.lease(place)
        assert found
        settle = Settle(token=found[0].hold.token, outcome=Outcome.DONE, reason="2xx")
        await found[0].session.exchange(settles=[settle])
        assert not (await part.frontier.maintenance.tend()).ended
    home = two.parts[0].home
    (run,) = await home.quiet(0)
    looks = [await part.contexts.look([run.context]) for part in two.parts]
    assert is_over(run, looks, 0, LINKS)
    assert await home.finish(run, summed(looks, 0))
    assert not await home.finish(run, summed(looks, 0))
    owed = await Streams(redis, two.parts[0].keys, "reader").owed(count=10, block_ms=0)
    (started, ended) = [one for one in owed if isinstance(one, OutboxRecord)]
    assert (started.kind, started.run) == ("crawl_started", 1)
    assert (ended.kind, ended.run, ended.reasons["done"]) == ("crawl_finished", 1, {"2xx": 2})
    assert (ended.counters["admitted"], ended.counters["done"]) == (2, 2)
    assert ended.positions == {"incoming:0": 2}
    assert await home.quiet(0) == []


async def test_the_next_run_waits_for_the_ending_of_the_last(two: Two) -> None:
    """Its label is pending, and so the partition asks again."""
    await two.feed()
    home = two.parts[0].home
    (run,) = await home.quiet(0)
    assert await home.finish(run, {})
    two.records.append(replace(two.records[1], offset=2))
    stamps = (await home.enroll(two.batch(2, 3))).stamps
    assert stamps[2].run == 2
    await two.parts[1].reading.take(two.batch(2, 3), stamps)
    for is_published in (False, True):
        if is_published:
            await home.published(two.crawl, 1)
        assert await two.confirm(1) == 1
        await two.parts[1].advance()
        found = await two.lease(1)
        assert (found is not None) == is_published
    assert found
    assert found[0].hold.run == 2


async def test_seeds_wait_for_their_grace(two: Two) -> None:
    """A run that has just had a seed is not looked at."""
    await two.feed()
    home = two.parts[0].home
    assert await home.quiet(5_000) == []
    await two.parts[0].advance(5_001)
    assert [run.run for run in await home.quiet(5_000)] == [1]
    assert await home.quiet(5_000, start=1) == []


async def test_another_life_is_not_restored_by_an_old_answer(two: Two) -> None:
    """Who read what Kafka knew before the home went back once more has read too little."""
    home = two.parts[0].home
    assert not await home.restore(two.parts[0].epochs[1] - 1, [])
    await two.parts[0].go_back(None, 2)
    with pytest.raises(NotRestored) as error:
        await home.enroll(two.batch(0, 2))
    assert error.value.redis_epoch == two.parts[0].epochs[2]
    assert await home.restore(error.value.redis_epoch, [])
    assert len((await home.enroll(two.batch(0, 2))).stamps) == 2


async def test_a_stop_of_a_crawl_that_nobody_knows_changes_nothing(two: Two) -> None:
    """It begins no generation, nor is anybody told: such requests are cheap to send."""
    stop = Command(offset=0, timestamp_ms=1, name="stop", request=b"{}", crawl=two.crawl)
    batch = replace(two.batch(0, 1), records=[stop])
    assert (await two.parts[0].home.enroll(batch)).note is None
    assert await two.parts[0].home.tells() == []


async def test_what_homes_do_not_know_yet_is_refused(two: Two) -> None:
    """Rather than half done."""
    seed = two.records[0]
    assert isinstance(seed, Seed)
    occasion = Occasion(schedule="nightly", at=1, n=0)
    for other in (replace(seed, expires=9), replace(seed, occasion=occasion)):
        batch = replace(two.batch(0, 1), records=[other])
        with pytest.raises(ValueError, match="schedules and expiry"):
            await two.parts[0].home.enroll(batch)


async def _say(two: Two, offset: int, action: str, priority: int | None = None) -> None:
    command = Command(
        offset=offset,
        timestamp_ms=offset,
        name=action,
        request=b"{}",
        crawl=two.crawl,
        priority=priority,
    )
    batch = replace(two.batch(0, 2), start=offset, next=offset + 1, records=[command])
    assert (await two.parts[0].home.enroll(batch)).note is None


async def _told(two: Two) -> list[Tell]:
    home = two.parts[0].home
    tells = await home.tells()
    await home.told(tells)
    return tells
