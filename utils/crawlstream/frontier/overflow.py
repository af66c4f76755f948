"""What does not fit into Redis: children spilled to Kafka, and their way back.

A page whose children find Redis crowded is ended in two steps. First they are written to
``<prefix>.overflow``, in records that are each named by the worker, the token of the page's hold
and a number. When Kafka has them, the settle carries these numbers instead of the children, and
the frontier counts what they hold as admitted and waiting. Once Redis has room the records are
read again; ``recall`` puts what they hold, with dedupe and caps, and moves their position, in one
script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from redis.asyncio import Redis

from crawlstream.errors import PositionGap
from crawlstream.frontier import packing
from crawlstream.frontier.children import GROUPS_PER_CALL, LINKS_PER_CALL, split_links
from crawlstream.frontier.links import Inheritance, Lot, flatten
from crawlstream.frontier.positions import read_positions
from crawlstream.frontier.scripts import Scripts, our_errors
from crawlstream.keys import FrontierKeys
from crawlstream.model.effects import Links, Spill

LINKS_PER_RECORD = 500
BYTES_PER_RECORD = 256 * 1024
"""Of a record, unless one entry alone is larger: several come back in one script."""
BYTES_PER_CALL = 512 * 1024
"""Of the records in one script, so that a small Redis is not filled by one."""
_VERSION = 1
_FIELDS = (int, bytes, bytes, int, bytes, int, int, int, list)
_GROUP_FIELDS = (bytes, int, bytes, bool, list, list)


def spill(
    worker: str, spiderid: str, token: str, *, links: Sequence[Links], inherited: Inheritance
) -> list[Spill]:
    """The children of a held page as records for Kafka."""
    spills = []
    for chunk, groups in enumerate(_parts(links, LINKS_PER_RECORD)):
        record = [
            _VERSION,
            worker,
            token,
            chunk,
            inherited.crawl,
            inherited.run,
            packing.none_as(inherited.domain_max_pages),
            packing.none_as(inherited.max_pages),
            [_group(*group) for group in inherited.with_headers(groups, spiderid)],
        ]
        spills.append(Spill(chunk, _size(groups), packing.pack(record)))
    return spills


def _group(lot: Lot, domain: object, fingerprints: object, entries: object) -> list[object]:
    priority, spider, counts, _ = lot
    return [domain, priority, spider, counts, fingerprints, entries]


def _parts(links: Sequence[Links], most: int) -> Iterator[list[Links]]:
    """The same links in lists of at most ``most``, and of a bounded size."""
    for groups in split_links(links, most):
        size = sum(len(entry) for group in groups for entry in group.entries)
        if size > BYTES_PER_RECORD and _size(groups) > 1:
            yield from _parts(groups, (_size(groups) + 1) // 2)
        else:
            yield groups


def _size(groups: Sequence[Links]) -> int:
    return sum(len(group.entries) for group in groups)


@dataclass(frozen=True, slots=True)
class Spilled:
    """A record of the topic: the children of one page, or some of them."""

    offset: int
    size: int
    """Of its value, in bytes."""
    links: int
    groups: int
    fields: Sequence[object]
    """As ``recall.lua`` takes them."""

    @property
    def weight(self) -> float:
        """The part that it has in what one script may take."""
        return max(
            self.links / LINKS_PER_CALL,
            self.groups / GROUPS_PER_CALL,
            self.size / BYTES_PER_CALL,
        )


def read_spill(offset: int, value: bytes | None) -> Spilled:
    """Check a record before the frontier relies on it; ValueError says what is wrong with it."""
    try:
        fields = packing.unpack(value)
    except Exception as error:
        raise ValueError(f"not a packed value: {error}") from error
    if not _fits(fields, _FIELDS) or fields[0] != _VERSION:
        raise ValueError(f"not a spilled record of version {_VERSION}")
    for group in fields[-1]:
        if not _fits(group, _GROUP_FIELDS) or len(group[-1]) != len(group[-2]):
            raise ValueError("not a group of links")
        if not all(isinstance(part, bytes) for part in (*group[-1], *group[-2])):
            raise ValueError("not a list of links")
    *fields, groups = fields[1:]
    links = flatten(
        ((priority, spider, counts, ""), domain, fingerprints, entries)
        for domain, priority, spider, counts, fingerprints, entries in groups
    )
    size = sum(len(group[-1]) for group in groups)
    return Spilled(offset, len(value or b""), size, len(groups), [*fields, links])


def _fits(values: object, kinds: Sequence[type]) -> bool:
    return (
        isinstance(values, list)
        and len(values) == len(kinds)
        and all(type(value) is kind for value, kind in zip(values, kinds, strict=True))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SpillBatch:
    """Consecutive records of one Kafka partition: offsets from ``start`` up to ``next``."""

    topic_id: str
    kafka_partition: int
    start: int
    next: int
    records: Sequence[Spilled]

    def parts(self) -> Iterator[SpillBatch]:
        """Cut into batches that a script takes at once; they leave no offset uncovered."""
        start, part, weight = self.start, list[Spilled](), 0.0
        for record in self.records:
            weight += record.weight
            if part and weight > 1:
                yield self._part(start, record.offset, part)
                start, part, weight = record.offset, [], record.weight
            part.append(record)
        yield self._part(start, self.next, part)

    def _part(self, start: int, end: int, records: Sequence[Spilled]) -> SpillBatch:
        return SpillBatch(
            topic_id=self.topic_id,
            kafka_partition=self.kafka_partition,
            start=start,
            next=end,
            records=records,
        )


@dataclass(frozen=True, slots=True)
class Recalled:
    """What became of a batch; all 0 for a repetition."""

    applied: int
    ignored: int
    """Records of runs that have ended, or of pages that are fetched again."""
    admitted: int
    """Links that entered; the others were duplicates or refused by a cap, and counted so."""


@dataclass(frozen=True, slots=True)
class Room:
    """Whether there is anything to recall, and room for it."""

    spilled: int
    """Links that wait in Kafka."""
    is_there: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """A moment of the frontier: its clock, and its life."""

    clock_ms: int
    life: int


class Overflow:
    """The frontier's side of the topic: positions, and what is to come back.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, redis: Redis, keys: FrontierKeys) -> None:
        self._redis: Any = redis
        self._keys = keys
        self._run = Scripts(redis, keys.tag).run

    async def room(self) -> Room:
        """What is spilled, and whether it may come back."""
        spilled, is_roomy = packing.unpack(await self._run("room"))
        return Room(spilled, bool(is_roomy))

    async def positions(self) -> Mapping[tuple[str, int], int]:
        """Next offset to recall, by topic UUID and Kafka partition."""
        with our_errors():
            fields = await self._redis.hgetall(self._keys.overflow())
        return read_positions(fields)

    async def begin(self, topic_id: str, kafka_partition: int, offset: int) -> int:
        """Let a partition be recalled from ``offset`` on, if it has no position; answers where."""
        key, field = self._keys.overflow(), f"{topic_id}:{kafka_partition}"
        with our_errors():
            await self._redis.hsetnx(key, field, offset)
            return int(await self._redis.hget(key, field))

    async def rewind(self, topic_id: str, kafka_partition: int, offset: int) -> None:
        """Have a partition recalled again from ``offset`` on: each record comes back once."""
        with our_errors():
            await self._redis.hset(self._keys.overflow(), f"{topic_id}:{kafka_partition}", offset)

    async def moment(self) -> Moment:
        """Now, or a little earlier: nothing will be registered with a time before it."""
        with our_errors():
            clock, life = await self._redis.hmget(self._keys.meta(), "clock", "life")
        return Moment(int(clock or 0), int(life or 0))

    async def passed(self, before: Moment, topic_id: str, ends: Mapping[int, int]) -> bool:
        """Tell where each partition ended after a moment; answers whether there is more to tell.

        True: what was spilled by then is behind recall, or nobody can tell, for Redis was restarted
        since. False: recall has not come so far; tell the same again.
        """
        flat = [number for pair in ends.items() for number in pair]
        request = [before.life, before.clock_ms, topic_id, flat]
        return await self._run("pass", packing.pack(request)) != 0

    async def recall(self, batch: SpillBatch) -> Recalled:
        """Let records take effect, with their position.

        PositionGap: records before the batch are missing; read again from its ``position``, -1
        where none is known.
        """
        records = [part for one in batch.records for part in (one.offset, one.fields)]
        place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
        answer = packing.unpack(await self._run("recall", packing.pack([*place, records])))
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        return Recalled(*answer[1:])
