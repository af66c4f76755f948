"""How far each Kafka partition has taken effect, and what to do where nobody knows any more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from redis.asyncio import Redis

from crawlstream.frontier import packing
from crawlstream.frontier.scripts import Scripts, our_errors
from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import Loss

LOST_MS = 14 * 24 * 3600 * 1000
"""How long the runs of a lost Redis are remembered: as long as Kafka keeps their seeds."""


def read_positions(fields: Mapping[bytes, bytes]) -> dict[tuple[str, int], int]:
    """Offsets by topic UUID and Kafka partition, from a hash whose fields name both."""
    positions = {}
    for field, offset in fields.items():
        topic_id, _, partition = field.decode().rpartition(":")
        positions[topic_id, int(partition)] = int(offset)
    return positions


class Positions:
    """The positions that `intake` moves, for those who decide where reading begins.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self._redis: Any = redis
        self._keys = keys
        self._run = Scripts(redis, keys.tag(0)).run

    async def known(self) -> dict[tuple[str, int], int]:
        """Next offset to apply, by topic UUID and Kafka partition."""
        with our_errors():
            fields = await self._redis.hgetall(self._keys.positions())
        return read_positions(fields)

    async def restore(self, loss: Loss) -> int:
        """Say where a partition without a position begins; answers its position from now on."""
        runs = [
            part
            for crawl, run in loss.runs.items()
            for part in (FrontierKeys.crawl_field(crawl), run)
        ]
        place = [loss.topic_id, loss.kafka_partition, loss.offset]
        packed = packing.pack([*place, packing.none_as(loss.until), loss.floor, runs, LOST_MS])
        return int(cast(int, await self._run("restore", packed)))

    async def lost_until(self, topic_id: str, kafka_partition: int) -> int | None:
        """The offset below which a partition's records are the past of a lost Redis; None: none."""
        with our_errors():
            value = await self._redis.hget(self._keys.lost(), f"#{topic_id}:{kafka_partition}")
        return None if value is None else int(value)
