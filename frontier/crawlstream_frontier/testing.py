"""Runs a plugin in a test by the code that the monitors run: no server, or a Redis of the test's.

    effect = handle(PingHandler, {"ping": "hello", "uuid": "u1", "appid": "my-app"})
    reply = answer(PingMonitor, effect)

A plugin that needs the frontier gets a real one: ``answer(Backlog, effect, redis_url=…)``.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

from redis.asyncio import Redis

from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest, SetupError
from crawlstream.keys import Partitions
from crawlstream.model.effects import Command, Effect, IntakeBatch, Loss, PendingAction
from crawlstream.model.request import Refusal, Request, RequestLimits
from crawlstream.plugins.actions import Action, Context, Reply
from crawlstream.plugins.handlers import Handler, Router, effect_of
from crawlstream.plugins.seeds import seed_fed
from crawlstream.stats.tally import Tally
from crawlstream.tasks import run_to_end
from crawlstream.wire import jsontext
from crawlstream.wire.requests import KINDS, RequestKind
from crawlstream.wire.strict import parse_object
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.opening.redis_check import check_redis
from crawlstream_frontier.streams import Streams

__all__ = ["answer", "handle"]

_TOPIC = "test"


def handle(
    handler: Callable[[], Handler], request: Mapping[str, Any] | bytes, *, offset: int = 0
) -> Effect | None:
    """Return a handler's effect for a request, or for the bytes of a record, as kafka-monitor does.

    InvalidRequest and InvalidUrl: it refuses the record, because the record does not fit the
    handler's schema, goes to a built-in kind of lower rank, or the handler refuses it. Other
    errors of the handler are raised unchanged, and TypeError if it returns no effect.
    """
    limits = RequestLimits()
    raw = request if isinstance(request, bytes) else jsontext.dumps(request)
    made, fields = handler(), parse_object(raw, limits)
    if not made.schema.fits(fields):
        raise InvalidRequest(Refusal.BAD_REQUEST, made.schema.problems(fields))
    router = Router([made, *map(_BuiltIn, KINDS)], limits)
    found, built = router.route(raw)
    if found is not made:
        raise InvalidRequest(
            Refusal.BAD_REQUEST,
            [f"$: goes to the built-in kind {found.name!r}, whose rank {found.rank} is lower"],
        )
    return run_to_end(effect_of(made, built, _record(raw, offset)))


def answer(
    action: Callable[[Context], Action],
    command: Effect | None,
    *,
    before: Sequence[Effect | Mapping[str, Any] | None] = (),
    redis_url: str | None = None,
) -> Reply:
    """Return the reply of an action class to a command, which ``handle`` has returned.

    With ``redis_url`` the action has a frontier, Redis and counters of its own there, under a new
    namespace that is deleted afterwards; crawl requests, and effects that ``handle`` has returned,
    have taken effect in it ``before`` this one. Without it, and for ``context.editor``, SetupError
    names the service that the action lacks. TypeError: there is no command, or no reply;
    ValueError: the action has another name. Errors of the action are raised unchanged.
    """
    if not isinstance(command, Command):
        raise TypeError(f"an action answers a Command, not {command!r:.100}")
    return run_to_end(_answer(action, command, before, redis_url))


async def _answer(
    action: Callable[[Context], Action],
    command: Command,
    before: Sequence[Effect | Mapping[str, Any] | None],
    redis_url: str | None,
) -> Reply:
    if redis_url is None:
        if before:
            raise SetupError("effects before a command need a frontier: give redis_url as well")
        pending = PendingAction(id="0-1", name=command.name, request=command.request)
        return await _reply_of(action(_without_servers()), pending)
    async with _frontier_at(redis_url) as bench:
        effects = [_effect_of(each) for each in before if each is not None]
        pending = await bench.take_effect([*effects, command])
        return await _reply_of(action(bench.context), pending)


async def _reply_of(action: Action, pending: PendingAction) -> Reply:
    if action.name != pending.name:
        raise ValueError(f"the command is {pending.name!r}, the name of the action {action.name!r}")
    reply: object = await action.answer(pending)
    if not isinstance(reply, Reply):
        raise TypeError(f"answer() returned {reply!r:.100}, not a Reply")
    return reply


def _effect_of(given: Effect | Mapping[str, Any]) -> Effect:
    if not isinstance(given, Mapping):
        return given
    return seed_fed(given, _record(jsontext.dumps(given)), RequestLimits())


def _record(value: bytes, offset: int = 0) -> Record:
    return Record(_TOPIC, 0, offset, int(time.time() * 1000), None, value)


class _BuiltIn(Handler):
    """A kind that comes with the program, as far as it takes records away from a plugin."""

    def __init__(self, kind: RequestKind) -> None:
        self.name, self.rank, self.schema = kind.name, kind.rank, kind.schema
        self._kind = kind

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> Request:
        return self._kind.build(fields, limits)

    async def handle(self, request: Any, record: Record) -> None:
        raise NotImplementedError


class _Absent:
    """Stands for a service that a test does not have: any use of it raises its error."""

    def __init__(self, field: str, remedy: str) -> None:
        self._sentence = f"the action uses context.{field}, which this test has not: {remedy}"

    def __getattr__(self, name: str) -> Any:
        raise SetupError(self._sentence)


def _without_servers() -> Context:
    fields = ("frontier", "redis", "keys", "tally")
    absent: Any = {name: _Absent(name, "give redis_url to answer()") for name in fields}
    return Context(**absent, editor=_no_editor())


def _no_editor() -> Any:
    return _Absent("editor", "throttle rules need ZooKeeper; run the action in a cluster")


@dataclass(frozen=True, slots=True)
class _Bench:
    """A frontier of a test's own."""

    frontier: Frontier
    context: Context

    async def take_effect(self, effects: Sequence[Effect]) -> PendingAction:
        """Apply effects in their order; return the last, as redis-monitor reads it."""
        context = self.context
        place = Loss(topic_id=_TOPIC, kafka_partition=0, offset=0)
        await self.frontier.positions.restore(place)
        records = [replace(effect, offset=number) for number, effect in enumerate(effects)]
        await self.frontier.intake.apply(
            IntakeBatch(
                topic_id=_TOPIC, kafka_partition=0, start=0, next=len(records), records=records
            )
        )
        streams = Streams(context.redis, context.keys, "test")
        return (await streams.actions(count=len(records), block_ms=0))[-1]


@asynccontextmanager
async def _frontier_at(redis_url: str) -> AsyncIterator[_Bench]:
    partitions = Partitions(f"test{uuid4().hex}")
    keys = partitions.root
    async with Redis.from_url(redis_url) as redis:
        try:
            await check_redis(redis, partitions)
            frontier = Frontier(redis, keys)
            yield _Bench(
                frontier,
                Context(
                    frontier=frontier.queries,
                    redis=redis,
                    keys=keys,
                    editor=_no_editor(),
                    tally=Tally(redis, keys),
                ),
            )
        finally:
            async for key in redis.scan_iter(match=f"{keys.tag}*", count=1000):
                await redis.unlink(key)
