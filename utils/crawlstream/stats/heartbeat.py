"""Who is alive: each process says so every few seconds; silence forgets it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import uuid4

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from crawlstream import __version__
from crawlstream.keys import FrontierKeys

BEAT_EVERY_S = 5.0
ALIVE_S = 20
"""How long a process is taken to live after its last beat: three may be lost."""

_INDEX_S = 24 * 3600
"""The index of a cluster that was switched off goes away with this time to live."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One living process of the cluster, as it tells of itself."""

    kind: str
    """``kafka-monitor``, ``redis-monitor``, ``crawler`` or ``rest``."""
    spider: str = ""
    """Name of the spider, of a crawler only."""
    host: str = field(default_factory=socket.gethostname)
    node: str = field(default_factory=lambda: uuid4().hex[:12])
    """Tells apart the processes of one host."""
    pid: int = field(default_factory=os.getpid)
    started: float = field(default_factory=time.time)
    """Epoch seconds."""
    version: str = __version__

    @property
    def name(self) -> str:
        """What its key is named by."""
        return f"{self.kind}:{self.host}:{self.node}"


class Heartbeat:
    """Says that this process lives."""

    def __init__(self, redis: Redis, keys: FrontierKeys, process: Process) -> None:
        self._redis = redis
        self._keys = keys
        self.process = process

    async def beat(self) -> None:
        """Say it once."""
        key, index = self._keys.process(self.process.name), self._keys.processes()
        async with self._redis.pipeline() as pipe:
            pipe.hset(key, mapping=_fields(self.process))
            pipe.expire(key, ALIVE_S)
            pipe.zadd(index, {self.process.name: time.time()})
            pipe.expire(index, _INDEX_S)
            await pipe.execute()

    async def retire(self) -> None:
        """Say goodbye, so that an orderly end is seen at once."""
        async with self._redis.pipeline() as pipe:
            pipe.delete(self._keys.process(self.process.name))
            pipe.zrem(self._keys.processes(), self.process.name)
            await pipe.execute()

    async def run(self) -> None:
        """Beat until cancelled; a Redis that does not answer is only waited for."""
        try:
            while True:
                try:
                    await self.beat()
                except RedisError as error:
                    log.debug("heartbeat", outcome="missed", error=str(error))
                await asyncio.sleep(BEAT_EVERY_S)
        finally:
            with contextlib.suppress(RedisError, TimeoutError):
                async with asyncio.timeout(1):
                    await self.retire()


async def living(redis: Redis, keys: FrontierKeys) -> Sequence[Process]:
    """Every process that was heard of lately; takes the silent ones out of the index.

    A process is alive while its own key lives, so no clock of any machine decides.
    """
    indexed = cast("list[bytes]", await redis.zrange(keys.processes(), 0, -1))
    names = [name.decode() for name in indexed]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.hgetall(keys.process(name))
        told = dict(zip(names, await pipe.execute(), strict=True))
    silent = [name for name, fields in told.items() if not fields]
    if silent:
        await redis.zrem(keys.processes(), *silent)
    return [_process(fields) for fields in told.values() if fields]


def _fields(process: Process) -> dict[Any, Any]:
    return {
        "kind": process.kind,
        "spider": process.spider,
        "host": process.host,
        "node": process.node,
        "pid": process.pid,
        "started": process.started,
        "version": process.version,
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
    )
