"""Reading of Kafka by a partition: seeds of its domains, and links from other partitions."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple, cast

from crawlstream.errors import FrontierFull, NoFrontier, OutdatedStamp, PositionGap
from crawlstream.model.effects import IntakeBatch
from crawlstream.model.partitions.messages import Applied, SeedsOf, Stamp, Taken
from crawlstream_frontier.codec.intake import why_full
from crawlstream_frontier.codec.link_batch import LinkBatch
from crawlstream_frontier.codec.link_records import join_links
from crawlstream_frontier.codec.partitions import pack_take, unpack_context, unpack_questions
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.host_sites import HostSites
from crawlstream_frontier.positions import begin_at, late_in, untold_in
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.throttle_rules import ThrottleRules

_OF_ONE_COORDINATOR = SeedsOf()


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
        here = topic_id, kafka_partition
        position = await begin_at(self._redis, self._keys.positions(), here, offset)
        with our_errors():
            refused = await self._redis.hget(self._keys.refused(), f"{topic_id}:{kafka_partition}")
            late = late_in(await self._redis.hgetall(self._keys.late()))
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
        packed = pack([*batch.place, join_links(batch.records)])
        applied, ignored, admitted, unconfirmed = await self._run("apply", packed)
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
