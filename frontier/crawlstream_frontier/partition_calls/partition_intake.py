"""Reading of Kafka by a partition: seeds of its domains, and links from other partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

from crawlstream.errors import FrontierFull, NoFrontier, OutdatedStamp, PositionGap
from crawlstream.model.effects import IntakeBatch
from crawlstream.model.partitions.messages import Applied, SeedsOf, Stamp, Taken
from crawlstream_frontier.codec.intake import why_full
from crawlstream_frontier.codec.link_records import LinkRecord, join_links
from crawlstream_frontier.codec.links import GROUPS_PER_CALL, LINKS_PER_CALL
from crawlstream_frontier.codec.partitions import pack_take, unpack_context, unpack_questions
from crawlstream_frontier.codec.spill import BYTES_PER_CALL
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.host_sites import HostSites
from crawlstream_frontier.positions import late_in, untold_in
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.throttle_rules import ThrottleRules

_OF_ONE_COORDINATOR = SeedsOf()


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkBatch:
    """Consecutive records of links to one partition: offsets from ``start`` up to ``next``."""

    topic_id: str
    kafka_partition: int
    start: int
    next: int
    records: Sequence[LinkRecord]

    def parts(self) -> Iterator[LinkBatch]:
        """Cut into batches that a script takes at once; they leave no offset uncovered.

        Many records fit if they lead to the same domains, because their links are joined.
        """
        start, part = self.start, list[LinkRecord]()
        links = groups = size = 0
        known = defaultdict[object, set[object]](set)
        for record in self.records:
            links, size = links + record.links, size + record.size
            domains = set(record.domains)
            groups += len(domains - known[record.head])
            shares = links / LINKS_PER_CALL, groups / GROUPS_PER_CALL, size / BYTES_PER_CALL
            if part and max(shares) > 1:
                yield replace(self, start=start, next=record.offset, records=part)
                start, part = record.offset, []
                links, groups, size = record.links, len(domains), record.size
                known.clear()
            part.append(record)
            known[record.head] |= domains
        yield replace(self, start=start, records=part)


class Reached(NamedTuple):
    """Positions in a Kafka partition of requests."""

    position: int
    late: Mapping[int, int]
    """Position by coordinator, for coordinators whose seeds are further behind."""
    untold: Sequence[int]
    """Offsets of refused seeds whose refusal may be unpublished."""

    def of_all(self, but: Collection[int] = ()) -> int:
        """Return the position that the seeds of all coordinators, but for some, have reached."""
        return min(
            [
                self.position,
                *(at for coordinator, at in self.late.items() if coordinator not in but),
            ]
        )

    def lowest(self, but: Collection[int] = ()) -> int:
        """Return where to begin, if the seeds of some coordinators are left out."""
        return min([self.of_all(but), *self.untold])


class PartitionIntake:
    """Applies records in one partition, each exactly once, with its position.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._redis = scripts.redis
        self._keys = scripts.keys
        self._sites = HostSites(ThrottleRules(scripts))

    async def begin(self, topic_id: str, kafka_partition: int, offset: int) -> int:
        """Set a Kafka partition's first offset unless it has one; return where reading begins.

        That is before its position if the refusal of a seed may be unpublished.
        """
        return (await self.reached(topic_id, kafka_partition, offset)).lowest()

    async def reached(self, topic_id: str, kafka_partition: int, offset: int) -> Reached:
        """Begin as ``begin`` does; return all positions."""
        key, field = self._keys.positions(), f"{topic_id}:{kafka_partition}"
        with our_errors():
            await self._redis.hsetnx(key, field, offset)
            position = int(await self._redis.hget(key, field))
            refused = await self._redis.hget(self._keys.refused(), field)
            late = late_in(await self._redis.hgetall(self._keys.late()))
        here = topic_id, kafka_partition
        ours = {coordinator: at for (*place, coordinator), at in late.items() if (*place,) == here}
        return Reached(position, ours, untold_in(refused))

    async def take(
        self,
        batch: IntakeBatch,
        stamps: Mapping[int, Stamp],
        seeds_of: SeedsOf = _OF_ONE_COORDINATOR,
    ) -> Taken:
        """Admit seeds, stamped by their coordinators.

        Of the records of ``batch``, seeds of this partition's domains are left; its ``next`` covers
        the others, except those of absent coordinators. PositionGap: records before it are missing.
        FrontierFull: seeds wait. OutdatedStamp: a run has expired since, its coordinator must stamp
        the seed again.
        """
        packed = pack_take(batch, stamps, self._sites.of_seed, seeds_of)
        applied, refused, unconfirmed, short = await self._run("take", packed)
        return Taken(
            applied=applied,
            refused={n: why.decode() for n, why in zip(refused[::2], refused[1::2], strict=True)},
            unconfirmed=unpack_questions(unconfirmed),
            short=unpack_context(short),
        )

    async def apply(self, batch: LinkBatch) -> Applied:
        """Admit links, as many as one of ``batch.parts()`` has.

        PositionGap: records before it are missing, or some of them are in. FrontierFull: Redis has
        no room for links.
        """
        records = join_links(batch.records)
        place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
        applied, ignored, admitted, unconfirmed = await self._run("apply", pack([*place, records]))
        return Applied(
            applied=applied,
            ignored=ignored,
            admitted=admitted,
            unconfirmed=unpack_questions(unconfirmed),
        )

    async def _run(self, operation: str, packed: bytes) -> Sequence[Any]:
        try:
            answer = unpack(await self._scripts.run(operation, packed))
        except NoFrontier:
            raise PositionGap(-1) from None
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        if answer[0] == b"OUTDATED":
            raise OutdatedStamp
        if answer[0] == b"FULL":
            raise FrontierFull(why_full(*answer[1:]))
        return cast(Sequence[Any], answer[1:])
