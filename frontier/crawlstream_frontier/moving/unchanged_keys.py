"""Keys that move unchanged: stops in force, counters, schedules, the state of proxies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from itertools import zip_longest
from typing import Any

from redis.asyncio.cluster import RedisCluster

from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.shelves.shelf import Shelf

_SCANNED = 10_000
_DELETED = 500


async def keys_like(scripts: Scripts, pattern: str) -> AsyncIterator[list[bytes]]:
    """Yield the keys of a partition that match a pattern; a key may occur twice."""
    redis, target = scripts.redis, _node_of(scripts)
    if "*" not in pattern:
        yield [pattern.encode()]
        return
    cursor = 0
    while True:
        with our_errors():
            cursor, found = await redis.execute_command(
                "SCAN", cursor, "MATCH", pattern, "COUNT", _SCANNED, **target
            )
        if isinstance(cursor, dict):
            # A cluster returns a cursor for each queried node.
            (cursor,) = cursor.values()
        yield found
        if not int(cursor):
            return


async def delete_all(scripts: Scripts, shelf: Shelf | None, *, but: str = "") -> None:
    """Delete every key of a partition except ``but``, and its chunks on a separate shelf."""
    if shelf is not None:
        await _delete_chunks(scripts, shelf)
    async for found in keys_like(scripts, scripts.keys.all_of_it):
        left = [key for key in found if key != but.encode()]
        for start in range(0, len(left), _DELETED):
            with our_errors():
                await scripts.redis.unlink(*left[start : start + _DELETED])


async def _delete_chunks(scripts: Scripts, shelf: Shelf) -> None:
    keys = scripts.keys
    with our_errors():
        name = await scripts.redis.hget(keys.shelf(), "name")
    async for found in keys_like(scripts, keys.chunk_lists()):
        for key in found:
            with our_errors():
                chunks = await scripts.redis.lrange(key, 0, -1)
            ids = [chunk.split()[0].decode() for chunk in chunks if chunk.endswith(b"o")]
            await shelf.delete([keys.shelved_chunk(name.decode(), id_) for id_ in ids])


async def copy_keys(old: Scripts, new: Iterable[Scripts], pattern: str) -> None:
    """Copy matching keys of an old partition to new ones; merge with or replace values there."""
    targets = list(new)
    async for found in keys_like(old, pattern):
        for key in found:
            value = await _read(old.redis, key)
            for scripts in targets if value else ():
                name = scripts.keys.tag.encode() + key[len(old.keys.tag) :]
                with our_errors():
                    await _write(scripts.redis, name, value)


async def _read(redis: Any, key: bytes) -> Any:
    with our_errors():
        kind, lives_ms = await redis.type(key), await redis.pttl(key)
        readers = {
            b"string": redis.get,
            b"hash": redis.hgetall,
            b"set": redis.smembers,
            b"zset": lambda name: redis.zrange(name, 0, -1, withscores=True),
        }
        reader = readers.get(kind)
        value = await reader(key) if reader else None
    return (kind, value, lives_ms) if value else None


async def _write(redis: Any, key: bytes, found: Any) -> None:
    kind, value, lives_ms = found
    if kind == b"string":
        await redis.set(key, _united(key, value, await redis.get(key)))
    elif kind == b"hash":
        await redis.hset(key, mapping=value)
    elif kind == b"set":
        await redis.sadd(key, *value)
    else:
        await redis.zadd(key, dict(value))
    if lives_ms > 0:
        await redis.pexpire(key, lives_ms)


def _united(key: bytes, one: bytes, other: bytes | None) -> bytes:
    """Merge values of two old partitions: all bits of an occasion, the later of two stops."""
    if other is not None and b"}occasion:" in key:
        return bytes(a | b for a, b in zip_longest(one, other, fillvalue=0))
    if other is not None and b"}stop:" in key:
        return max(one, other, key=lambda stop: float(stop.split()[0]))
    return one


def _node_of(scripts: Scripts) -> dict[str, Any]:
    """Return the arguments that direct a command to the partition's node, for a Redis Cluster."""
    if not isinstance(scripts.redis, RedisCluster):
        return {}
    return {"target_nodes": scripts.redis.get_node_from_key(scripts.keys.tag)}
