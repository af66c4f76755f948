"""Intake of seeds and commands, for kafka-monitor."""

from __future__ import annotations

from crawlstream.errors import FrontierFull, NoFrontier, PositionGap
from crawlstream.model.effects import Command, IntakeBatch, IntakeResult
from crawlstream_frontier.codec.intake import pack_intake, pack_stop_ahead, unpack_intake, why_full
from crawlstream_frontier.codec.values import unpack
from crawlstream_frontier.host_sites import HostSites
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.throttle_rules import ThrottleRules

RECORDS_PER_CALL = 200
"""Records in one script: keeps the longest call near 5 ms."""
BYTES_PER_CALL = 512 * 1024
"""Bytes of these records together, unless one alone is larger: Redis counts a call as memory in
use, and a batch in flight must not fill it."""


class FrontierIntake:
    """Applies records of Kafka, in their order, each exactly once.

    Every method raises RedisUnavailable when Redis gives no answer; the call may have taken
    effect, and repeating it with the same arguments is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._sites = HostSites(ThrottleRules(scripts))

    def pack(self, batch: IntakeBatch) -> bytes:
        """Pack the argument of ``apply``: useful while another call is in flight."""
        return pack_intake(batch, self._sites.of_seed)

    async def apply(self, batch: IntakeBatch | bytes) -> IntakeResult:
        """Apply consecutive records, with their position; packed or not.

        PositionGap: records before the batch are missing; read again from its ``position``, or -1
        if none is known.
        FrontierFull: seeds wait until Redis is less full; pause, then repeat. Commands ahead of
        the first seed have taken effect, and so have stops behind it.
        """
        packed = batch if isinstance(batch, bytes) else self.pack(batch)
        try:
            answer = unpack(await self._scripts.run("intake", packed))
        except NoFrontier:
            raise PositionGap(-1) from None
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        if answer[0] == b"FULL":
            raise FrontierFull(why_full(*answer[1:]))
        done = unpack_intake(answer)
        await self._sites.follow(done.sites_version)
        return done.result

    async def stop_ahead(self, topic_id: str, kafka_partition: int, stop: Command) -> None:
        """Apply a stop now, if Redis is full, although seeds wait before it.

        It is answered now, and not again in its turn. PositionGap: the partition is unknown.
        """
        packed = pack_stop_ahead(topic_id, kafka_partition, stop)
        answer = unpack(await self._scripts.run("intake", packed))
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
