"""Contexts of a partition: labelled with the run they work for, and looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import cast

from crawlstream.keys import FrontierKeys
from crawlstream.model.partitions.messages import (
    ChangeAnswer,
    ContextChange,
    ContextKey,
    Label,
    Look,
)
from crawlstream_frontier.codec.credits import Draw, Grant, pack_count, pack_grant, unpack_draw
from crawlstream_frontier.codec.links import GROUPS_PER_CALL
from crawlstream_frontier.codec.partitions import (
    offsets_in,
    pack_changes,
    pack_labels,
    unpack_change_answers,
    unpack_report,
)
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.positions import late_in
from crawlstream_frontier.scripts import Scripts

LINKS_A_GRANT = GROUPS_PER_CALL
"""Each of the links may be of another domain."""


class Contexts:
    """The contexts of one partition.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def epoch(self) -> int:
        """Return the epoch of Redis, for labels that are requested from now on."""
        return (await self.look([])).redis_epoch

    async def label(self, redis_epoch: int, labels: Sequence[Label]) -> int:
        """Store labels requested in this epoch of Redis; no-op in any other epoch.

        Returns how many took effect: missing contexts and those with newer labels ignore theirs.
        """
        packed = pack_labels(redis_epoch, labels)
        if not labels:
            return 0
        applied, _ = unpack(await self._scripts.run("label", packed))
        return cast(int, applied)

    async def deliver(self, tells: Sequence[ContextChange]) -> list[ChangeAnswer]:
        """Deliver changes from coordinators; return the answers for ``Coordinator.acknowledge``."""
        if not tells:
            return []
        _, reports = unpack(await self._scripts.run("label", pack_changes(tells)))
        return unpack_change_answers(tells, reports)

    async def count(
        self, context: ContextKey, *, coordinator_epoch: int = 0, give_back: bool = False
    ) -> Draw:
        """Return the account of credits of a context, and how many it wants.

        Grants from an earlier epoch of the coordinator than ``coordinator_epoch`` are ignored from
        now on. ``give_back``: return credits that nothing here waits for.
        """
        packed = pack_count(context, coordinator_epoch, give_back=give_back)
        return unpack_draw(unpack(await self._scripts.run("count", packed)))

    async def granted(self, context: ContextKey, grant: Grant) -> Draw:
        """Store a grant of the coordinator; admit or refuse some of the links that are ready.

        Returns the credits that the context wants then.
        """
        packed = pack_grant(context, grant, LINKS_A_GRANT)
        return unpack_draw(unpack(await self._scripts.run("granted", packed)))

    async def look(self, contexts: Iterable[ContextKey]) -> Look:
        """Return the state of contexts, and of the partition, at one moment; in their order."""
        asked = [
            part
            for crawl, generation in contexts
            for part in (FrontierKeys.crawl_field(crawl), generation)
        ]
        answer = unpack(await self._scripts.run("look", pack([asked])))
        redis_epoch, positions, reports, late = answer
        fields = dict(zip(late[::2], late[1::2], strict=True))
        told = [*map(unpack_report, reports)]
        return Look(redis_epoch, offsets_in(positions), told, late_in(fields))
