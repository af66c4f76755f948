r"""Random lives of the frontier against a plain model; see ``support.frontier.machine``.

A seed takes about 80 ms of CPU. Any number of them:

    FRONTIER_SEEDS=20000 ./crawlstream test -n 0 --log-cli-level=INFO \
        tests/integration/frontier/test_random.py

prints its progress; ``FRONTIER_FIRST_SEED`` asks for others, ``FRONTIER_STEPS`` for longer ones.
Red seeds do not end it before there are several; each is printed with the way to see it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator
from random import Random

from crawlstream_chaos.processes import RunningServer
from support.frontier.machine import run_machine
from support.frontier.witness import Witness
from support.frontier.world import World

SEEDS = int(os.environ.get("FRONTIER_SEEDS", "150"))
FIRST_SEED = int(os.environ.get("FRONTIER_FIRST_SEED", "0"))
STEPS = int(os.environ.get("FRONTIER_STEPS", "20"))
LANES = 4
"""Lives at a time, each in a database of its own: they spend half of it waiting for Redis."""
MOST_RED, TOLD_EVERY = 5, 500


async def test_random_lives_agree_with_the_model(redis_server: RunningServer) -> None:
    """Compares queues, leases, ledgers and endings with the model after random operations."""
    seeds, red = iter(range(FIRST_SEED, FIRST_SEED + SEEDS)), list[Exception]()
    async with asyncio.TaskGroup() as lanes:
        for database in range(1, LANES + 1):
            lanes.create_task(_live(redis_server.port, database, seeds, red))
    if red:
        raise ExceptionGroup("lives that do not agree with the model", red)


def _world_of(seed: int) -> Callable[[Random], World]:
    """Return the kind of world of a life: some are about links, and some about host budgets."""
    return {3: World.hosted, 4: World.linked}.get(seed % 5, World.some)


async def _live(port: int, database: int, seeds: Iterator[int], red: list[Exception]) -> None:
    """Play one life after the other, until there are no more or too many have gone wrong."""
    async with Witness(port, database) as redis:
        for seed in seeds:
            try:
                await run_machine(redis, seed, STEPS, _world_of(seed))
            except Exception as error:  # noqa: BLE001  also what Redis or the model stumbles over
                error.add_note(
                    f"FRONTIER_FIRST_SEED={seed} FRONTIER_SEEDS=1 FRONTIER_STEPS={STEPS}"
                )
                red.append(error)
            if (seed + 1 - FIRST_SEED) % TOLD_EVERY == 0:
                done = seed + 1 - FIRST_SEED
                logging.getLogger(__name__).info("%d lives, %d red", done, len(red))
            if len(red) >= MOST_RED:
                return
        await redis.flushdb()
