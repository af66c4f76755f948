"""Random lives of the frontier against a plain model; see ``support.frontier_machine``.

``FRONTIER_SEEDS=5000 ./crawlstream test tests/integration/test_frontier_random.py`` runs more of
them, ``FRONTIER_FIRST_SEED`` others, ``FRONTIER_STEPS`` longer ones.
"""

from __future__ import annotations

import os

from redis.asyncio import Redis

from support.frontier_machine import run_machine

SEEDS = int(os.environ.get("FRONTIER_SEEDS", "200"))
FIRST_SEED = int(os.environ.get("FRONTIER_FIRST_SEED", "0"))
STEPS = int(os.environ.get("FRONTIER_STEPS", "30"))


async def test_random_lives_agree_with_the_model(redis: Redis) -> None:
    """Whatever happens in whatever order, queues, holds, ledgers and endings are as expected."""
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        try:
            await run_machine(redis, seed, STEPS)
        except AssertionError as error:
            raise AssertionError(f"FRONTIER_FIRST_SEED={seed} FRONTIER_SEEDS=1: {error}") from error
