"""Steps of the model of page limits, replayed on the real scripts: both come to the same after each.

CREDIT_WALKS=2000 ./crawlstream test -n 0 tests/integration/frontier/partitions/test_credits.py
"""

from __future__ import annotations

import os
from random import Random

import pytest
from redis.asyncio import Redis

from support.partitions.credit_replay import replay_credits

WALKS = int(os.environ.get("CREDIT_WALKS", "25"))

pytest_plugins = ("support.frontier.fixtures",)


@pytest.mark.usefixtures("still")
async def test_scripts_do_what_the_model_does(redis: Redis) -> None:
    """Accounts, what waits, what has entered, and what the home knows, also after faults."""
    finished = 0
    for seed in range(WALKS):
        finished += await replay_credits(redis, Random(seed))
    assert finished > WALKS // 2
