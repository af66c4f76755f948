"""Positions of Kafka partitions: their notes, and the data that an operator's decision removes."""

from __future__ import annotations

import re
from dataclasses import replace

from crawlstream.model.effects import Loss
from crawlstream.model.run_marks import Fate
from support.frontier.bench import CRAWL, KEYS, Bench, Feed

pytest_plugins = ["support.frontier.fixtures"]

NOTES = (
    KEYS.epochs(),
    KEYS.refused(),
    KEYS.again(),
    KEYS.attempts(),
    KEYS.lost(),
    KEYS.tag + "ahead",
)
"""Hashes that say something of offsets of a partition."""


async def epoch_after(bench: Bench, *, records: int, leader_epoch: int) -> int | None:
    """Epoch that is kept once this number of further records has taken effect."""
    seeds = [bench.feed.seed(f"a/{number}") for number in range(records)]
    await bench.frontier.intake.apply(replace(bench.feed.batch(*seeds), leader_epoch=leader_epoch))
    return await bench.frontier.positions.leader_epoch("topic", 0)


async def test_the_leader_epoch_moves_with_the_position(bench: Bench) -> None:
    """It is that of the latest batch; the first one of a log is 0, and one without is not known."""
    for told, kept in ((0, 0), (3, 3), (-1, None), (7, 7)):
        assert await epoch_after(bench, records=2, leader_epoch=told) == kept


async def test_what_is_read_again_leaves_the_leader_epoch(bench: Bench) -> None:
    """A batch that does not move the position says nothing of the record before it."""
    older = replace(bench.feed.batch(bench.feed.seed("a/1")), leader_epoch=4)
    latest = replace(bench.feed.batch(bench.feed.seed("a/2")), leader_epoch=5)
    for batch in (older, latest):
        await bench.frontier.intake.apply(batch)
    for again in (older, latest, replace(older, leader_epoch=9), replace(latest, leader_epoch=-1)):
        await bench.frontier.intake.apply(again)
        assert await bench.frontier.positions.leader_epoch("topic", 0) == 5


async def note(bench: Bench, feed: Feed) -> None:
    """Leave whatever may be noted about a partition's offsets."""
    positions = bench.frontier.positions
    seeds = [feed.seed(f"a/{number}", domain_max_pages=0) for number in range(6)]
    await bench.frontier.intake.apply(replace(feed.batch(*seeds), leader_epoch=2))
    await positions.assigned(feed.topic_id, feed.partition, 6)
    await positions.begun(feed.topic_id, feed.partition, 5)
    place = f"{feed.topic_id}:{feed.partition}"
    fates = [Fate(crawl=replace(CRAWL, crawlid="lost"), run=9, is_over=False)]
    loss = Loss(topic_id=feed.topic_id, kafka_partition=feed.partition, offset=0, until=3, floor=9)
    await positions.restore(replace(loss, fates=fates))
    await bench.redis.hset(KEYS.again(), place, b"\x90")
    await bench.redis.hset(KEYS.tag + "ahead", f"{place} 7", "")


async def noted(bench: Bench, kafka_partition: int) -> list[int]:
    """How many fields of each of these hashes are about a partition."""
    about = re.compile(rf"#?topic:{kafka_partition}(:\d+| \d+)?".encode())
    fields = [await bench.redis.hkeys(key) for key in NOTES]
    return [sum(about.fullmatch(field) is not None for field in of_hash) for of_hash in fields]


async def test_a_decision_forgets_what_was_noted_of_the_old_log(bench: Bench) -> None:
    """Forgets notes about that partition only, not of a similar number, nor lost runs."""
    feeds = [await bench.another_feed(number) for number in (1, 10)]
    for feed in feeds:
        await note(bench, feed)
    everything = [1, 1, 1, 2, 1, 1]
    assert [await noted(bench, n) for n in (1, 10)] == [everything] * 2
    positions = bench.frontier.positions
    assert await positions.reposition("topic", 1, shown=6, offset=2)
    assert await noted(bench, 1) == [0] * len(NOTES)
    assert await noted(bench, 10) == everything
    assert await bench.redis.hlen(KEYS.lost()) == 2, (
        "the run that was lost, and the other partition"
    )
    assert await positions.known() == {("topic", 0): 0, ("topic", 1): 2, ("topic", 10): 6}


async def test_a_decision_about_another_position_changes_nothing(bench: Bench) -> None:
    """The caller that decides names the position that holds, of a partition that has one."""
    feed = await bench.another_feed(1)
    await note(bench, feed)
    positions = bench.frontier.positions
    before = [await bench.redis.hgetall(key) for key in NOTES]
    assert not await positions.reposition("topic", 1, shown=5, offset=2)
    assert not await positions.reposition("topic", 2, shown=0, offset=2)
    assert [await bench.redis.hgetall(key) for key in NOTES] == before
    assert await positions.known() == {("topic", 0): 0, ("topic", 1): 6}
