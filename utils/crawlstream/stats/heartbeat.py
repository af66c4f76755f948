"""Heartbeats of processes: each writes one every few seconds; without it a process is forgotten."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import psutil
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream.errors import ConfigError
from crawlstream.keys import FrontierKeys
from crawlstream.model.process import Activity, LogLine, Process
from crawlstream.stats.complaints import MOST, latest_complaints, latest_lines
from crawlstream.stats.places import Place, of_any
from crawlstream.stats.wishes import Wish
from crawlstream.wire import jsontext

BEAT_EVERY_S, HEARD_EVERY_S = 5.0, 1.0
"""Interval in seconds while no reader follows the lines of the log, and while one does."""
ALIVE_S = 20
"""How long a process is taken to live after its last beat: three may be lost."""

_VALUE = "="
"""Begins the fields of a heartbeat that are settings."""
_COMPLAINT = "!"
"""Begins the fields of a heartbeat that are lines of its log, the latest first."""
_PIPELINE = "|"
"""Begins the fields of a heartbeat that describe a pipeline, as JSON."""
_SELF = psutil.Process()
_INDEX_S = 24 * 3600
"""The index of a cluster that was switched off goes away with this time to live."""

_SAY = """#!lua flags=allow-oom
local before = redis.call('ZRANGE', KEYS[2], 0, -1)
redis.call('HSET', KEYS[1], unpack(ARGV, 5))
redis.call('EXPIRE', KEYS[1], ARGV[1])
redis.call('ZADD', KEYS[2], ARGV[4], ARGV[3])
redis.call('EXPIRE', KEYS[2], ARGV[2])
return {before, redis.call('HKEYS', KEYS[3])}
"""
"""A script, for a full Redis takes neither these commands nor any transaction from a client, and
those that drain it are not to be taken for dead."""

log = structlog.get_logger()


class Work(NamedTuple):
    """Work that a process has finished since it began, and has in flight (None: not reported)."""

    done: float
    in_flight: int | None = None


class Heartbeat:
    """Reports that this process lives, and its work: ``work`` is called with every beat."""

    def __init__(
        self,
        redis: Redis,
        keys: FrontierKeys,
        process: Process,
        *,
        work: Callable[[], Work] | None = None,
        pipelines: Callable[[], Mapping[str, Mapping[str, Any]]] = dict,
        drain: Callable[[], None] | None = None,
        also: Sequence[Place] = (),
    ) -> None:
        """``also``: further places to report to; see ``places``.

        ``pipelines``: the report of each pipeline that the process runs, always of the same ones.
        ``drain`` is called once, when an operator wishes that the process ends in good order.
        """
        self._places = [(redis, keys), *also]
        self.process = process
        self._work = work
        self._pipelines = pipelines
        self._drain = drain
        self._has_listener = False
        """True if a reader follows the latest lines of the log."""
        self._measured: tuple[float, float] | None = None
        """Time and work done at the last beat."""

    async def join(self) -> None:
        """Say it for the first time, unless an equal that lives works with other values.

        Of two that join at once Redis decides which one was first, and the other one is refused:
        ConfigError names both values. Equals are processes of one kind, crawlers of one spider.
        """
        before, _ = await self._say()
        heard = await of_any(self._places, lambda redis, keys: _heard(redis, keys, before))
        for other in (other for each in heard for other in each.values()):
            if other and (disagreement := _disagreement(self.process, other)):
                await self.retire()
                raise ConfigError(disagreement)

    async def beat(self) -> None:
        """Write a heartbeat, and obey wishes; a wish for lines is granted at once."""
        was_listened_to = self._has_listener
        _, wishes = await self._say()
        self._has_listener = Wish.TAIL.encode() in wishes
        if self._has_listener and not was_listened_to:
            await self._say()
        if self._drain and Wish.DRAIN.encode() in wishes:
            drain, self._drain = self._drain, None
            drain()

    async def _say(self) -> tuple[list[bytes], list[bytes]]:
        """Answers who was in the index before, and what is wished of this process."""
        told_now = {**_fields(self.process), **self._activity()}
        fields = [part for pair in told_now.items() for part in pair]
        name = self.process.name

        async def say(redis: Redis, keys: FrontierKeys) -> tuple[list[bytes], list[bytes]]:
            names = [keys.process(name), keys.processes(), keys.wishes(name)]
            said = redis.eval(_SAY, 3, *names, ALIVE_S, _INDEX_S, name, time.time(), *fields)
            return cast("tuple[list[bytes], list[bytes]]", await said)

        answers = await of_any(self._places, say)
        before = {other for names, _ in answers for other in names}
        return list(before), [wished for _, wishes in answers for wished in wishes]

    def _activity(self) -> dict[str, Any]:
        """Return the same fields with every beat: fields that are not written keep their values."""
        now, rate, in_flight = time.monotonic(), "", ""
        if self._work:
            work = self._work()
            in_flight = "" if work.in_flight is None else str(work.in_flight)
            if self._measured and now > self._measured[0]:
                at, done = self._measured
                rate = f"{max(0.0, work.done - done) / (now - at):.2f}"
            self._measured = (now, work.done)
        complaints = [f"{one.at} {one.level} {one.text}" for one in latest_complaints()]
        lines = dict(enumerate([*complaints, *[""] * (MOST - len(complaints))]))
        return {
            "rate": rate,
            "in_flight": in_flight,
            "rss": _SELF.memory_info().rss,
            "drains": int(self._drain is not None),
            "tail": jsontext.dumps(latest_lines() if self._has_listener else []),
            **{f"{_COMPLAINT}{number}": line for number, line in lines.items()},
            **{_PIPELINE + name: jsontext.dumps(t) for name, t in self._pipelines().items()},
        }

    async def retire(self) -> None:
        """Say goodbye, so that an orderly end is seen at once."""
        name = self.process.name

        async def retire(redis: Redis, keys: FrontierKeys) -> None:
            # A full Redis takes no transactions, whatever is in them.
            async with redis.pipeline(transaction=False) as pipe:
                pipe.delete(keys.process(name))
                pipe.zrem(keys.processes(), name)
                await pipe.execute()

        await of_any(self._places, retire)

    async def run(self) -> None:
        """Beat until cancelled; a Redis that does not answer is only waited for."""
        try:
            while True:
                try:
                    await self.beat()
                except RedisError as error:
                    log.debug("heartbeat", outcome="missed", error=str(error))
                await asyncio.sleep(HEARD_EVERY_S if self._has_listener else BEAT_EVERY_S)
        finally:
            await self.withdraw()

    async def withdraw(self) -> None:
        """Retire, if Redis answers: a process that ends does not wait for it."""
        with contextlib.suppress(RedisError, TimeoutError):
            async with asyncio.timeout(1):
                await self.retire()


async def living_in(places: Sequence[Place]) -> Sequence[Process]:
    """Return every process with a recent heartbeat in any of these places; see ``living``."""
    heard = await of_any(places, living)
    return list({process.name: process for each in heard for process in each}.values())


async def living(redis: Redis, keys: FrontierKeys) -> Sequence[Process]:
    """Return every process with a recent heartbeat; remove the silent ones from the index.

    A process is alive while its own key lives, so no clock of any machine decides.
    """
    indexed = cast("list[bytes]", await redis.zrange(keys.processes(), 0, -1))
    heard = await _heard(redis, keys, indexed)
    silent = [name for name, process in heard.items() if process is None]
    if silent:
        await redis.zrem(keys.processes(), *silent)
    return [process for process in heard.values() if process]


async def _heard(
    redis: Redis, keys: FrontierKeys, names: Sequence[bytes]
) -> Mapping[bytes, Process | None]:
    """Return the heartbeats of these processes; None for the silent ones."""
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(keys.process(name.decode()))
        told = await pipe.execute()
    heard = zip(names, told, strict=True)
    return {name: _process(fields) if fields else None for name, fields in heard}


def _disagreement(ours: Process, other: Process) -> str:
    """Describe settings in which an equal process differs; "" if none, or if it is not an equal."""
    if (ours.kind, ours.spider) != (other.kind, other.spider):
        return ""
    differences = [
        f"{variable} is {value} here and {other.values[variable]} in {other.name}"
        for variable, value in ours.values.items()
        if other.values.get(variable, value) != value
    ]
    if not differences:
        return ""
    return (
        f"{'; '.join(differences)}: every {ours.kind} of a cluster must use the same value; to"
        " change it, stop all of them first"
    )


def _fields(process: Process) -> dict[Any, Any]:
    return {
        "kind": process.kind,
        "spider": process.spider,
        "host": process.host,
        "node": process.node,
        "pid": process.pid,
        "started": process.started,
        "version": process.version,
        **{_VALUE + variable: value for variable, value in process.values.items()},
    }


def _process(fields: dict[bytes, bytes]) -> Process:
    told = {name.decode(): value.decode() for name, value in fields.items()}
    return Process(
        kind=told["kind"],
        spider=told["spider"],
        host=told["host"],
        node=told["node"],
        pid=int(told["pid"]),
        started=float(told["started"]),
        version=told["version"],
        activity=_activity_of(told),
        values={name[1:]: value for name, value in told.items() if name.startswith(_VALUE)},
        pipelines={
            name[1:]: cast("Mapping[str, Any]", jsontext.loads(value.encode()))
            for name, value in told.items()
            if name.startswith(_PIPELINE)
        },
    )


def _activity_of(told: Mapping[str, str]) -> Activity:
    """Parse a heartbeat; older versions do not report every field."""
    lines = [told[name] for name in sorted(told) if name.startswith(_COMPLAINT) and told[name]]
    parts = [line.split(" ", 2) for line in lines]
    return Activity(
        rate=float(told["rate"]) if told.get("rate") else None,
        in_flight=int(told["in_flight"]) if told.get("in_flight") else None,
        resident_bytes=int(told["rss"]) if told.get("rss") else None,
        complaints=tuple(LogLine(float(at), level, text) for at, level, text in parts),
        can_drain=told.get("drains") == "1",
        tail=[LogLine(*line) for line in _lines_of(told.get("tail", ""))],
    )


def _lines_of(told: str) -> Sequence[tuple[float, str, str]]:
    return cast("Sequence[tuple[float, str, str]]", jsontext.loads(told.encode()) if told else [])
