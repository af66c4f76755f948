"""The append-only file of a Redis: cut between its records, and loaded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from support.frontier.bench import keep_what_is_answered

Unit = Sequence[Sequence[bytes]]
"""The commands of one record: one command, or all that a script has written."""


async def file_of(redis: Redis) -> Path:
    """The part of the append-only file that is being written; it holds what was answered."""
    await redis.config_set("auto-aof-rewrite-percentage", 0)
    await keep_what_is_answered(redis)
    config = await redis.config_get("dir", "appenddirname")
    folder = Path(str(config["dir"])) / str(config["appenddirname"])
    return max(folder.glob("*.incr.aof"), key=lambda path: int(path.name.split(".")[-3]))


def commands_in(data: bytes) -> Iterator[tuple[int, Sequence[bytes]]]:
    """The commands of an append-only file, each with the place behind it."""
    at = 0
    while at < len(data):
        end = data.index(b"\r\n", at)
        count, at, parts = int(data[at + 1 : end]), end + 2, []
        for _ in range(count):
            end = data.index(b"\r\n", at)
            length, at = int(data[at + 1 : end]), end + 2
            parts.append(data[at : at + length])
            at += length + 2
        yield at, parts


def units_in(data: bytes) -> Iterator[tuple[int, Unit]]:
    """Units that Redis loads wholly or not at all, each with the position after it."""
    unit: list[Sequence[bytes]] = []
    is_open = False
    for at, command in commands_in(data):
        name = command[0].upper()
        if name == b"MULTI":
            is_open = True
        elif name != b"EXEC":
            unit.append(command)
        if name == b"EXEC" or not is_open:
            yield at, unit
            unit, is_open = [], False


async def replay(redis: Any, units: Sequence[Unit]) -> None:
    """Load records into an empty database."""
    await redis.flushdb()
    async with redis.pipeline(transaction=False) as pipe:
        for unit in units:
            for command in unit:
                if command[0].upper() != b"SELECT":
                    pipe.execute_command(*command)
        await pipe.execute()
