"""Random lives of the frontier against a plain model; see ``support.frontier_machine``.

``FRONTIER_SEEDS=5000 ./crawlstream test tests/integration/test_frontier_random.py`` runs more of
them, ``FRONTIER_FIRST_SEED`` others, ``FRONTIER_STEPS`` longer ones.
"""

from __future__ import annotations

import asyncio
import os

from redis.asyncio import Redis

from support.frontier_machine import run_machine
from support.servers import RunningServer

SEEDS = int(os.environ.get("FRONTIER_SEEDS", "500"))
FIRST_SEED = int(os.environ.get("FRONTIER_FIRST_SEED", "0"))
STEPS = int(os.environ.get("FRONTIER_STEPS", "20"))
LANES = 4
"""Lives at a time, each in a database of its own: they spend half of it waiting for Redis."""


async def test_random_lives_agree_with_the_model(redis: Redis, redis_server: RunningServer) -> None:
    """Whatever happens in whatever order, queues, holds, ledgers and endings are as expected."""
    del redis
    seeds = iter(range(FIRST_SEED, FIRST_SEED + SEEDS))

    async def live(database: int) -> None:
        async with Redis(host="127.0.0.1", port=redis_server.port, db=database) as own:
            for seed in seeds:
                await run_named(own, seed)

    async with asyncio.TaskGroup() as lanes:
        for database in range(1, LANES + 1):
            lanes.create_task(live(database))


async def run_named(redis: Redis, seed: int) -> None:
    """One life; a failure tells how to see it again."""
    try:
        await run_machine(redis, seed, STEPS)
    except AssertionError as error:
        raise AssertionError(f"FRONTIER_FIRST_SEED={seed} FRONTIER_SEEDS=1: {error}") from error
