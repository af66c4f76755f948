"""A batch of records on its way in: judged one by one, put together.

One try stands around bytes, JSON, schema and handler. A permanent fault rejects the record, a
transient one (``Unavailable``) goes up to the loop and is waited for, an unknown one is tried
three times and then rejects.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import structlog

from crawlstream.bus.records import Batch, Record
from crawlstream.errors import (
    CrawlstreamError,
    FrontierFull,
    InvalidRequest,
    InvalidUrl,
    Unavailable,
)
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import (
    AppliedSeed,
    Command,
    Effect,
    IntakeBatch,
    IntakeResult,
    ScheduleChange,
    Seed,
)
from crawlstream.model.request import Refusal
from crawlstream.plugins.handlers import Router, effect_of
from crawlstream.retry import up_to
from kafka_monitor.plugins.built_in_handler import BuiltInHandler
from kafka_monitor.poison import DEATHS, PoisonDetector
from kafka_monitor.rejections import RejectedRecord

TRIES = 3
"""Attempts at a step that fails for an unknown reason."""

PAUSE_S = 0.1
ASKED_LATELY_S = 600
QUESTIONS = frozenset({"info", "stats", "show"})
"""Commands that change nothing: to answer them twice is harmless."""
LONGEST_TEXT = 500
"""Characters of an error's own text; what it quotes may be huge."""

log = structlog.get_logger()
T = TypeVar("T")


class IntakeTarget(Protocol):
    """Lets batches take effect: as `FrontierIntake`, or in several partitions."""

    def pack(self, batch: IntakeBatch) -> Any:
        """Return the batch in the form that ``apply`` takes."""

    async def apply(self, batch: Any) -> IntakeResult:
        """Let a batch take effect, with its position; PositionGap, FrontierFull, Unavailable."""


class AppliedOffsets(Protocol):
    """How far partitions of Kafka have taken effect: as `Recovery`, or in several partitions."""

    async def locate(self, topic_id: str, partition: int) -> int:
        """The offset to read from; Unavailable, LostRecords."""

    def note_reached(self, partition: int, position: int) -> None:
        """The frontier has moved a position."""

    def settled(self, partition: int, reached: int) -> int:
        """Up to where all has taken effect everywhere, once it has ``reached`` an offset."""

    def caught_up(self) -> dict[int, int]:
        """Return positions by partition that have gone up without new records."""

    async def misplaced(self) -> dict[int, str]:
        """Topic UUID by partition, of those to be read from an earlier offset on."""

    def is_past(self, partition: int, offset: int) -> bool:
        """Return whether a record has taken effect already, perhaps in a Redis that was lost."""

    def is_over(self, crawl: CrawlKey, record: Record) -> bool:
        """Return whether a seed of a lost Redis is not to be crawled again."""

    def steer_again(self, effect: Command | ScheduleChange) -> Effect | None:
        """Return the effect of an old command that is repeated, unless it is a query."""

    async def note_steering(self, batch: Batch, effects: Sequence[object]) -> None:
        """Have Kafka remember stops, pauses and resumes of a batch before they take effect."""


@dataclass(frozen=True, slots=True)
class JudgedBatch:
    """A batch whose every record is an effect, or rejected, or was all done by its handler."""

    batch: Batch
    effects: Sequence[Effect]
    rejected: Sequence[RejectedRecord]
    handled: Mapping[str, int]
    """Records by the class name of their handler, for the counters."""
    packed: object = None
    """Effects in their packed form; None if a plugin has made one that cannot be packed."""


class RequestIntake:
    """Judges batches and puts them into the frontier."""

    def __init__(
        self,
        frontier: IntakeTarget,
        router: Router,
        recovery: AppliedOffsets,
        breaker: PoisonDetector,
    ) -> None:
        self._frontier = frontier
        self._router = router
        self._recovery = recovery
        self._breaker = breaker

    def most(self, batch: Batch) -> int:
        """Records of a batch that are judged together."""
        return self._breaker.most(batch)

    async def judge(self, batch: Batch) -> JudgedBatch:
        """Decide what becomes of each record; Unavailable where a handler needs a service."""
        async with self._breaker.watch(batch) as is_poison:
            if not is_poison:
                return await self._judge_all(batch)
        problems = [f"$: {DEATHS} kafka-monitor processes died while processing this record"]
        rejected = [RejectedRecord(record, "poison", problems) for record in batch.records]
        return JudgedBatch(batch, (), rejected, {})

    async def _judge_all(self, batch: Batch) -> JudgedBatch:
        effects: list[Effect] = []
        rejected: list[RejectedRecord] = []
        handled: Counter[str] = Counter()
        for record in batch.records:
            is_past = self._recovery.is_past(batch.partition, record.offset)
            verdict: Effect | RejectedRecord | None = (
                await self._judge_again(record)
                if is_past
                else await self._judge_one(record, handled)
            )
            if isinstance(verdict, RejectedRecord):
                rejected.append(verdict)
            elif verdict is not None:
                effects.append(verdict)
        return JudgedBatch(batch, effects, rejected, handled, self._pack_ahead(batch, effects))

    async def judge_again(self, batch: Batch) -> list[Effect]:
        """The effects of records that were judged before, and told of if they were rejected."""
        verdicts = [await self._judge_again(record) for record in batch.records]
        return [effect for effect in verdicts if effect is not None]

    async def put(self, judged: JudgedBatch) -> IntakeResult:
        """Let the effects and the position take hold, both or neither.

        PositionGap, FrontierFull, Unavailable: nothing was done. Whatever else comes up three
        times in a row goes up too.
        """
        packed = judged.packed
        if packed is None:
            packed = self._pack(judged.batch, judged.effects)
        return await _thrice("put", lambda: self._frontier.apply(packed))

    async def note_published(self, batch: Batch) -> None:
        """Note that rejections of a batch are published; PositionGap, Unavailable: not noted."""
        try:
            await self._frontier.apply(self._pack(replace(batch, start=batch.next), ()))
        except CrawlstreamError:
            raise
        except Exception as error:
            raise Unavailable(f"the frontier cannot accept requests: {error}") from error

    def _pack_ahead(self, batch: Batch, effects: Sequence[Effect]) -> object:
        """Pack while the batch before is put; what fails here fails again when it is put."""
        try:
            return self._pack(batch, effects)
        except Exception:  # noqa: BLE001  the loop finds the record that is to blame
            return None

    def _pack(self, batch: Batch, effects: Sequence[Effect]) -> object:
        return self._frontier.pack(
            IntakeBatch(
                topic_id=batch.topic_id,
                kafka_partition=batch.partition,
                start=batch.start,
                next=batch.next,
                records=effects,
                leader_epoch=batch.leader_epoch,
            )
        )

    async def _judge_again(self, record: Record) -> Effect | None:
        """Return the effect of an old record on a new frontier: seeds of unfinished crawls enter.

        A recent query may still be unanswered, so it is repeated.
        """
        try:
            handler, request = self._router.route(record.value)
            is_pure = handler.replays or isinstance(handler, BuiltInHandler)
            effect = await effect_of(handler, request, record) if is_pure else None
        except (InvalidRequest, InvalidUrl):
            return None
        if isinstance(effect, Seed) and self._recovery.is_over(effect.crawl, record):
            return _seen(effect)
        if isinstance(effect, Command | ScheduleChange) and not handler.replays:
            is_late = record.timestamp_ms < (time.time() - ASKED_LATELY_S) * 1000
            asked = effect.name if isinstance(effect, Command) else effect.do
            if asked not in QUESTIONS:
                return self._recovery.steer_again(effect)
            return None if is_late else effect
        return effect

    async def _judge_one(
        self, record: Record, handled: Counter[str]
    ) -> Effect | RejectedRecord | None:
        if record.unread:
            return RejectedRecord(record, Refusal.TOO_LARGE, [f"$: {record.unread}"])
        try:
            handler, request = self._router.route(record.value)
            handled[type(handler).__name__] += 1
            if isinstance(handler, BuiltInHandler):
                await handler.admit(request)
            return await _thrice("route", lambda: effect_of(handler, request, record))
        except InvalidRequest as error:
            return RejectedRecord(record, error.reason, error.problems)
        except InvalidUrl as error:
            return RejectedRecord(record, Refusal.BAD_URL, [f"$.url: {error}"])
        except (Unavailable, FrontierFull):
            raise
        except Exception as error:
            log.exception("route", outcome="failed", offset=record.offset)
            return RejectedRecord(record, "handler_failed", [sentence_of(error)])


def _seen(seed: Seed) -> AppliedSeed | None:
    """Return the memory of a seed whose run is over: its occasion must not take effect again."""
    if seed.occasion is None:
        return None
    return AppliedSeed(
        offset=seed.offset,
        timestamp_ms=seed.timestamp_ms,
        appid=seed.crawl.appid,
        occasion=seed.occasion,
    )


async def _thrice(step_name: str, step: Callable[[], Awaitable[T]]) -> T:
    """Try a step up to three times; known errors are raised at once."""

    def note(error: Exception, left: int) -> None:
        log.warning(step_name, outcome="failed", error=repr(error), tries_left=left)

    return await up_to(TRIES, step, pause_s=PAUSE_S, on_failure=note, fatal=(CrawlstreamError,))


def sentence_of(error: Exception) -> str:
    """Return an unexpected error as a problem of the whole record."""
    return f"$: {type(error).__name__}: {str(error)[:LONGEST_TEXT]}"
