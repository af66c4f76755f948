"""Applied offset of each Kafka partition, and recovery when it is unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Loss
from crawlstream_frontier.codec.values import crawl_from, none_as, pack, unpack
from crawlstream_frontier.layout import create_frontier
from crawlstream_frontier.scripts import Scripts, our_errors

FATES_A_CALL = 200
"""Crawls restored in one call, so that no call takes long."""

LOST_MS = 14 * 24 * 3600 * 1000
"""Time for which the runs of a lost Redis are kept: as long as Kafka keeps their seeds."""


def read_positions(fields: Mapping[bytes, bytes]) -> dict[tuple[str, int], int]:
    """Return offsets by topic UUID and Kafka partition, from a hash with both in its fields."""
    positions = {}
    for field, offset in fields.items():
        topic_id, _, partition = field.decode().rpartition(":")
        positions[topic_id, int(partition)] = int(offset)
    return positions


async def positions_in(redis: Any, key: str) -> dict[tuple[str, int], int]:
    """Return the offsets in a hash of positions, by topic UUID and Kafka partition."""
    with our_errors():
        return read_positions(await redis.hgetall(key))


async def begin_at(redis: Any, key: str, place: tuple[str, int], offset: int) -> int:
    """Set the first offset of a topic's Kafka partition unless it has a position; return that."""
    field = f"{place[0]}:{place[1]}"
    with our_errors():
        await redis.hsetnx(key, field, offset)
        return int(await redis.hget(key, field))


async def first_again(redis: Any, key: str) -> dict[tuple[str, int], int]:
    """Return the first offset to read again, by topic UUID and Kafka partition.

    Its seeds were written after a stop, and read before it.
    """
    with our_errors():
        fields = await redis.hgetall(key)
    return read_positions(
        {field: min(one[2] for one in unpack(value)) for field, value in fields.items()}
    )


def late_in(fields: Mapping[bytes, bytes]) -> dict[tuple[str, int, int], int]:
    """Return offsets by topic UUID, Kafka partition and coordinator, from the hash ``late``."""
    late = {}
    for field, offset in fields.items():
        place, _, coordinator = field.decode().rpartition(" ")
        topic_id, _, partition = place.rpartition(":")
        late[topic_id, int(partition), int(coordinator)] = int(offset)
    return late


class Positions:
    """The positions that `intake` moves, for processes that decide where reading begins.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._redis = scripts.redis
        self._keys = scripts.keys
        self._scripts = scripts

    async def known(self) -> dict[tuple[str, int], int]:
        """Return the next offset to apply, by topic UUID and Kafka partition."""
        return await positions_in(self._redis, self._keys.positions())

    async def late(self) -> dict[tuple[str, int, int], int]:
        """Return the next offset of late seeds by topic UUID, Kafka partition and coordinator."""
        with our_errors():
            return late_in(await self._redis.hgetall(self._keys.late()))

    async def again(self) -> dict[tuple[str, int], int]:
        """Return the first offset to read again below the position, by topic UUID and partition."""
        return await first_again(self._redis, self._keys.again())

    async def begin(self, topic_id: str, kafka_partition: int, position: int) -> int:
        """Return where reading begins: at the position, or before it if records are needed again.

        Such are seeds whose refusal may be unpublished, or that were written after a late stop.
        """
        field = f"{topic_id}:{kafka_partition}"
        with our_errors():
            refused = await self._redis.hget(self._keys.refused(), field)
        again = (await self.again()).get((topic_id, kafka_partition), position)
        return min([position, again, *untold_in(refused)])

    async def leader_epoch(self, topic_id: str, kafka_partition: int) -> int | None:
        """Return the leader epoch at the position or of a later record; None: unknown."""
        with our_errors():
            value = await self._redis.hget(self._keys.epochs(), f"{topic_id}:{kafka_partition}")
        return None if value is None else int(value)

    async def reposition(
        self, topic_id: str, kafka_partition: int, *, shown: int, offset: int
    ) -> bool:
        """Continue at another offset of a changed log; False: the position is not ``shown``.

        No kafka-monitor may run. Stops in the lost part count by their time from now on.
        """
        place = f"{topic_id}:{kafka_partition}".encode()
        with our_errors():
            async for key in self._redis.scan_iter(match=self._keys.stops(), count=1_000):
                text = await self._redis.get(key) or b""
                at, _, rest = text.partition(b" ")
                if rest.startswith(place + b" "):
                    moved = b"%s %s:lost %s" % (at, place, rest.rpartition(b" ")[2])
                    await self._redis.set(key, moved, keepttl=True)
        packed = pack([topic_id, kafka_partition, shown, offset])
        return await self._scripts.run("reposition", packed) == 1

    async def are_moved(self) -> bool:
        """Return True if the frontier is being moved, so that no more records may be read."""
        with our_errors():
            return bool(await self._redis.hexists(self._keys.meta(), "moving"))

    async def crawls(self) -> dict[CrawlKey, int]:
        """Return the latest run by crawl, for known crawls."""
        with our_errors():
            names = await self._redis.hgetall(self._keys.names())
        return {crawl_from(name): int(text.split()[1]) for name, text in names.items()}

    async def restore(self, loss: Loss) -> int:
        """Restore where a partition begins, and the state of runs; return its new position.

        For partitions without a position, and those that an older Redis was restored for. Creates
        a frontier in an empty Redis.
        """
        await create_frontier(self._scripts)
        place = [loss.topic_id, loss.kafka_partition, loss.offset]
        told = [*place, none_as(loss.until), loss.floor]
        behind = {**loss.behind, **({loss.kafka_partition: loss.until} if loss.until else {})}
        fates = [
            [
                FrontierKeys.crawl_field(fate.crawl),
                fate.run,
                fate.is_over,
                fate.is_paused,
                fate.paused_until,
                none_as(fate.remember),
            ]
            for fate in loss.fates
        ]
        position = 0
        for start in range(0, max(len(fates), 1), FATES_A_CALL):
            part = fates[start : start + FATES_A_CALL]
            is_last = start + FATES_A_CALL >= len(fates)
            packed = pack([*told, part, list(behind.items()), LOST_MS, is_last])
            position = int(cast(int, await self._scripts.run("restore", packed)))
        return position

    async def lost_until(self, topic_id: str, kafka_partition: int) -> int | None:
        """Return the offset below which a lost Redis had read a partition; None: no loss."""
        with our_errors():
            value = await self._redis.hget(self._keys.lost(), f"#{topic_id}:{kafka_partition}")
        return None if value is None else int(value)

    async def assigned(self, topic_id: str, kafka_partition: int, position: int) -> bool:
        """Note where reading of a partition begins; return True if a process stopped there before.

        That is, if it was last assigned there, or the record there was begun with care.
        """
        field = f"{topic_id}:{kafka_partition}"
        with our_errors():
            asked = [field, f"{field}:{position}"]
            before, begun = await self._redis.hmget(self._keys.attempts(), asked)
            if begun or (before is not None and int(before) == position):
                return True
            await self._redis.hset(self._keys.attempts(), field, position)
        return False

    async def begun(self, topic_id: str, kafka_partition: int, position: int) -> int:
        """Note that the record at a position is being judged; return the number of open tries."""
        field = f"{topic_id}:{kafka_partition}:{position}"
        with our_errors():
            return int(await self._redis.hincrby(self._keys.attempts(), field, 1))

    async def ended(self, topic_id: str, kafka_partition: int, position: int) -> None:
        """Remove that note."""
        with our_errors():
            await self._redis.hdel(
                self._keys.attempts(), f"{topic_id}:{kafka_partition}:{position}"
            )


def untold_in(refused: bytes | None) -> Sequence[int]:
    """Return the offsets of refused seeds whose refusal may be unpublished."""
    return unpack(refused)[::2] if refused else []
