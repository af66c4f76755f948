"""The registry of crawls in the partition that is their coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from crawlstream.errors import NoFrontier, NotRestored, PositionGap
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import IntakeBatch
from crawlstream.model.partitions.messages import (
    Begun,
    ChangeAnswer,
    ContextChange,
    ContextKey,
    CoordinatorMark,
    Enrolled,
    Label,
    OpenRun,
    Overdue,
    Question,
    RegisteredRun,
    Spent,
    ToNote,
)
from crawlstream_frontier.codec.coordinator import (
    pack_enroll,
    pack_fates,
    pack_lapse,
    unpack_begun,
    unpack_note,
    unpack_stamps,
)
from crawlstream_frontier.codec.credits import Draw, Grant, NoGrant, pack_draws, unpack_grant
from crawlstream_frontier.codec.partitions import (
    pack_change_answers,
    pack_finish,
    pack_questions,
    pack_spent,
    unpack_budgeted,
    unpack_changes,
    unpack_labels,
    unpack_registered_runs,
    unpack_runs,
)
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.positions import begin_at, first_again, positions_in
from crawlstream_frontier.scripts import Scripts, our_errors

RUNS_A_CALL = 200
"""Runs that one query to a coordinator returns."""
FATES_A_CALL = 200
"""Fates restored in one call, so that no call takes long."""
_NOTHING_NOTED: Mapping[int, ToNote] = {}


class Coordinator:
    """Calls to the coordinator of crawls.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe. Except
    ``begin``, ``restore`` and those about runs they raise NotRestored, and do nothing, until the
    records in Kafka have been restored in this epoch of Redis.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts
        self._redis = scripts.redis
        self._keys = scripts.keys

    async def begin(self, topic_id: str, kafka_partition: int, offset: int) -> int:
        """Set a Kafka partition's first offset to enroll unless it has one; return it."""
        place = topic_id, kafka_partition
        return await begin_at(self._redis, self._keys.enrolled(), place, offset)

    async def enrolled(self) -> Mapping[tuple[str, int], int]:
        """Return the next offset to enroll, by topic UUID and Kafka partition."""
        return await positions_in(self._redis, self._keys.enrolled())

    async def enroll(
        self,
        batch: IntakeBatch,
        noted: Mapping[int, ToNote] = _NOTHING_NOTED,
        begun: Sequence[Begun] = (),
    ) -> Enrolled:
        """Apply consecutive records: seeds and commands for its crawls and schedules.

        ``noted``: notes in Kafka, by the offset of the record that has to wait for its note;
        ``begun``: crawls of the previous answer that Kafka has. Seeds below the position are
        answered again. PositionGap: records before the batch are missing.
        """
        try:
            answer = await self._ask("enroll", pack_enroll(batch, noted, begun))
        except NoFrontier:
            raise PositionGap(-1) from None
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        _, redis_epoch, stamps, note, stopped, repeated, new = answer
        return Enrolled(
            unpack_stamps(redis_epoch, stamps),
            unpack_note(redis_epoch, note),
            stopped,
            {key.decode(): n for key, n in zip(*[iter(repeated)] * 2, strict=True)},
            unpack_begun(redis_epoch, new),
        )

    async def again(self) -> Mapping[tuple[str, int], int]:
        """Return the first offset to read again, by topic UUID and Kafka partition."""
        return await first_again(self._redis, self._keys.again())

    async def reread(self, batch: IntakeBatch) -> None:
        """Note that partitions have the seeds of these records that entered once more."""
        place = [batch.topic_id, batch.kafka_partition, batch.start, batch.next]
        await self._scripts.run("reread", pack(place))

    async def labels(self, questions: Sequence[Question]) -> list[Label]:
        """Return the labels of some contexts, in the order of the questions."""
        _, redis_epoch, labels = await self._ask("labels", pack_questions(questions))
        return unpack_labels(redis_epoch, questions, labels)

    async def draw(
        self, context: ContextKey, draws: Mapping[int, Draw], *, asker: int, counted_in: int = 0
    ) -> Grant | NoGrant:
        """Record the accounts of partitions, and grant credits to the requesting one.

        ``counted_in``: the epoch of the coordinator in which all of them were counted; 0: they were
        not.
        """
        answer = await self._ask("draw", pack_draws(context, draws, asker, counted_in))
        return unpack_grant(answer)

    async def quiet(
        self, grace_ms: int, *, start: int = 0, most: int = 200
    ) -> tuple[list[OpenRun], int]:
        """Return open runs that have had no seed for ``grace_ms``: each begins a look.

        At most a limited number from ``start`` on; also their total number, including runs whose
        predecessor's ending is not in Kafka.
        """
        _, redis_epoch, runs, passed = await self._ask("quiet", grace_ms, start, most)
        return unpack_runs(redis_epoch, runs), passed

    async def spend(self, spent: Sequence[Spent]) -> list[OpenRun]:
        """End runs that have spent a budget; return the open runs that have budgets.

        ``overdue`` then answers the ended ones.
        """
        _, redis_epoch, runs = await self._ask("spend", pack_spent(spent))
        return unpack_budgeted(redis_epoch, runs)

    async def overdue(self, grace_ms: int, dedupe_ms: int, *, most: int = 50) -> Overdue:
        """Return the ends that its clock says are due, for Kafka and then for ``lapse``.

        A run ends when its time is over, ``grace_ms`` after its last seed; a crawl forgets its
        pages ``dedupe_ms`` after its last run, or after the time that its seeds set.
        """
        _, redis_epoch, notes, next_ms = await self._ask("overdue", grace_ms, dedupe_ms, most)
        found = [unpack_note(redis_epoch, note) for note in notes]
        return Overdue([one for one in found if one], None if next_ms < 0 else next_ms)

    async def lapse(self, note: ToNote) -> bool:
        """Apply an end that Kafka has, unless the generation has ended otherwise."""
        return await self._scripts.run("lapse", pack_lapse(note)) == 1

    async def runs(self, crawls: Sequence[CrawlKey]) -> Mapping[CrawlKey, RegisteredRun]:
        """Return the latest runs of these crawls, if the coordinator knows them."""
        found: dict[CrawlKey, RegisteredRun] = {}
        for start in range(0, len(crawls), RUNS_A_CALL):
            asked = crawls[start : start + RUNS_A_CALL]
            names = [FrontierKeys.crawl_field(crawl) for crawl in asked]
            found |= unpack_registered_runs(asked, unpack(await self._scripts.run("runs", *names)))
        return found

    async def under_way(self) -> int:
        """Return the number of runs that are open or ending."""
        with our_errors():
            is_open = await self._redis.zcard(self._keys.open_runs())
            return int(is_open + await self._redis.hlen(self._keys.closing()))

    async def finish(self, run: OpenRun, ledger: Mapping[str, int]) -> bool:
        """End a run that a look found to be over, unless anything has changed since.

        ``ledger``: the counters of all reports, summed.
        """
        return await self._scripts.run("finish", pack_finish(run, ledger)) == 1

    async def published(self, crawl: CrawlKey, run: int) -> None:
        """Note that Kafka has the ending of a run, so that the next one may be worked for."""
        await self._scripts.run("published", pack([FrontierKeys.crawl_field(crawl), run]))

    async def restore(
        self, redis_epoch: int, marks: Sequence[CoordinatorMark], *, dedupe_ms: int = 600_000
    ) -> bool:
        """Restore generations and runs from Kafka in a coordinator that may have gone back.

        First write the beginning of this epoch to Kafka; then read up to there. ``marks`` are
        those that survive (``survivors``), in the order of the log. ``dedupe_ms``: time after
        its last run for which a crawl remembers its pages. False: another epoch of the coordinator.
        """
        for start in range(0, max(len(marks), 1), FATES_A_CALL):
            part = marks[start : start + FATES_A_CALL]
            is_last = start + FATES_A_CALL >= len(marks)
            packed = pack_fates(redis_epoch, part, dedupe_ms, is_last=is_last)
            _, is_same = unpack(await self._scripts.run("recover", packed))
            if not is_same:
                return False
        return True

    async def changes(self, most: int = 100) -> list[ContextChange]:
        """Return some of the changes to deliver to partitions."""
        _, tells = await self._ask("tells", most)
        return unpack_changes(tells)

    async def acknowledge(self, answers: Iterable[ChangeAnswer]) -> int:
        """Record the partitions' answers to changes; return how many changes are done.

        A stop is answered when all have replied, and its ending is published when nothing of its
        generation is in flight any more; until then its changes stay.
        """
        _, done = await self._ask("told", pack_change_answers(answers))
        return cast(int, done)

    async def _ask(self, operation: str, *args: str | bytes | int) -> Sequence[Any]:
        answer = unpack(await self._scripts.run(operation, *args))
        if answer[0] == b"RESTORE":
            raise NotRestored(answer[1])
        return cast(Sequence[Any], answer)
