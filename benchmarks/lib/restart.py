"""How long Redis stands still to copy itself, and how long it takes to come back from that copy."""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from redis.asyncio import Redis
from redis.exceptions import BusyLoadingError
from redis.exceptions import ConnectionError as RedisConnectionError

from crawlstream_cli.local.ports import free_block


@dataclass(frozen=True, slots=True)
class Restart:
    """Cost of a copy of all data of Redis."""

    fork_ms: float
    """Milliseconds of the fork, in which Redis answers no client."""
    save_s: float
    load_s: float


async def restarted(redis: Redis) -> Restart:
    """Copy it to disk, and let another server load the copy."""
    await redis.bgsave()
    while (info := await redis.info("persistence"))["rdb_bgsave_in_progress"]:
        await asyncio.sleep(0.2)
    stats = await redis.info("stats")
    place: dict[str, str] = await redis.config_get("dir", "dbfilename")  # type: ignore[assignment]
    return Restart(
        fork_ms=stats["latest_fork_usec"] / 1000,
        save_s=float(info["rdb_last_bgsave_time_sec"]),
        load_s=await _load_s(place),
    )


async def _load_s(place: Mapping[str, str]) -> float:
    port = free_block(1)
    options = {**place, "port": port, "save": "", "bind": "127.0.0.1"}
    argv = [
        "redis-server",
        *(part for key, value in options.items() for part in (f"--{key}", str(value))),
    ]
    began = time.monotonic()
    with subprocess.Popen(argv, stdout=subprocess.DEVNULL) as process:
        try:
            async with Redis(port=port, socket_timeout=60) as other:
                while not await _has_loaded(other):
                    await asyncio.sleep(0.02)
                return time.monotonic() - began
        finally:
            process.kill()


async def _has_loaded(redis: Redis) -> bool:
    try:
        return bool(await redis.ping())
    except (BusyLoadingError, RedisConnectionError):
        return False
