"""The registry of crawls in the partition that is their home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from crawlstream.errors import NoFrontier, NotRestored, PositionGap
from crawlstream.frontier.codec.credits import pack_draws, unpack_grant
from crawlstream.frontier.codec.partitions import (
    pack_enroll,
    pack_fates,
    pack_finish,
    pack_questions,
    pack_told,
    unpack_labels,
    unpack_note,
    unpack_runs,
    unpack_stamps,
    unpack_tells,
)
from crawlstream.frontier.codec.values import pack, unpack
from crawlstream.frontier.positions import read_positions
from crawlstream.frontier.scripts import Scripts, our_errors
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import IntakeBatch
from crawlstream.model.partitions.credits import Draw, Grant, NoGrant
from crawlstream.model.partitions.messages import (
    ContextKey,
    Enrolled,
    HomeMark,
    Label,
    OpenRun,
    Question,
    Tell,
    Told,
)

FATES_A_CALL = 200
"""Fates that a home is told at once, so that no call takes long."""
_NOTHING_NOTED: Mapping[int, int] = {}


class Home:
    """What a home is told of its crawls, and says of them.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe. But for
    ``begin`` and ``restore`` they raise NotRestored, and do nothing, where what Kafka knows has not
    been told in this epoch of Redis.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._redis = scripts.redis
        self._keys = scripts.keys

    async def begin(self, topic_id: str, kafka_partition: int, offset: int) -> int:
        """Let a Kafka partition be enrolled from ``offset`` on, unless it is; answers where."""
        key, field = self._keys.enrolled(), f"{topic_id}:{kafka_partition}"
        with our_errors():
            await self._redis.hsetnx(key, field, offset)
            return int(await self._redis.hget(key, field))

    async def enrolled(self) -> Mapping[tuple[str, int], int]:
        """Next offset to enroll, by topic UUID and Kafka partition."""
        with our_errors():
            return read_positions(await self._redis.hgetall(self._keys.enrolled()))

    async def enroll(
        self, batch: IntakeBatch, noted: Mapping[int, int] = _NOTHING_NOTED
    ) -> Enrolled:
        """Let consecutive records take effect: the seeds and commands of crawls with this home.

        ``noted``: by offset of a stop, the generation under which Kafka has it. Seeds below the
        position are answered again. PositionGap: records before the batch are missing.
        """
        try:
            answer = await self._ask("enroll", pack_enroll(batch, noted))
        except NoFrontier:
            raise PositionGap(-1) from None
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        _, redis_epoch, stamps, note = answer
        return Enrolled(unpack_stamps(redis_epoch, stamps), unpack_note(note))

    async def labels(self, questions: Sequence[Question]) -> list[Label]:
        """What is true of some contexts, in the order of the questions."""
        _, redis_epoch, labels = await self._ask("labels", pack_questions(questions))
        return unpack_labels(redis_epoch, questions, labels)

    async def draw(
        self, context: ContextKey, draws: Mapping[int, Draw], *, asker: int, counted_in: int = 0
    ) -> Grant | NoGrant:
        """Hear the accounts of partitions, and grant credits to the one that asks.

        ``counted_in``: the epoch of the home in which all of them were counted; 0: they were not.
        """
        answer = await self._ask("draw", pack_draws(context, draws, asker, counted_in))
        return unpack_grant(answer)

    async def quiet(
        self, grace_ms: int, *, start: int = 0, most: int = 200
    ) -> tuple[list[OpenRun], int]:
        """Open runs that have had no seed for ``grace_ms``: each begins a look.

        Of all of them, at most so many from ``start`` on; how many there were, those included of
        which Kafka does not have the ending before.
        """
        _, redis_epoch, runs, passed = await self._ask("quiet", grace_ms, start, most)
        return unpack_runs(redis_epoch, runs), passed

    async def finish(self, run: OpenRun, ledger: Mapping[str, int]) -> bool:
        """End a run that a look has found to be over, unless anything has changed since it began.

        ``ledger``: the counters of all reports, summed.
        """
        return await self._scripts.run("finish", pack_finish(run, ledger)) == 1

    async def published(self, crawl: CrawlKey, run: int) -> None:
        """Kafka has the ending of a run: the next one may be worked for."""
        await self._scripts.run("published", pack([FrontierKeys.crawl_field(crawl), run]))

    async def restore(self, redis_epoch: int, marks: Sequence[HomeMark]) -> bool:
        """Tell a home that may have gone back which stops and ends Kafka knows.

        First have Kafka remember that this epoch has begun; then read up to there. ``marks`` are
        those that survive (``survivors``), in the order of the log. False: it is in another epoch.
        """
        for start in range(0, max(len(marks), 1), FATES_A_CALL):
            part = marks[start : start + FATES_A_CALL]
            is_last = start + FATES_A_CALL >= len(marks)
            packed = pack_fates(redis_epoch, part, is_last=is_last)
            _, is_same = unpack(await self._scripts.run("recover", packed))
            if not is_same:
                return False
        return True

    async def tells(self, most: int = 100) -> list[Tell]:
        """Some of what partitions are to hear."""
        _, tells = await self._ask("tells", most)
        return unpack_tells(tells)

    async def told(self, answers: Iterable[Told]) -> int:
        """What partitions have answered to tells; answers how many of these are done.

        A stop is replied to when all have answered, and its ending is owed when nothing of its
        generation is in flight any more; until then its tells stay.
        """
        _, done = await self._ask("told", pack_told(answers))
        return cast(int, done)

    async def _ask(self, operation: str, *args: str | bytes | int) -> Sequence[Any]:
        answer = unpack(await self._scripts.run(operation, *args))
        if answer[0] == b"RESTORE":
            raise NotRestored(answer[1])
        return cast(Sequence[Any], answer)
