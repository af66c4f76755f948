"""Steps of the model of partitions, replayed on the real scripts: both come to the same after each.

Walks are random; each begins with the number that a failure names. More of them, and longer:

    PARTITION_TRACES=2000 ./crawlstream test -n 0 tests/integration/frontier/partitions
"""

from __future__ import annotations

import logging
import os
from random import Random

import pytest
from redis.asyncio import Redis

from support.partitions.traces import Trace, replay_walk

TRACES = int(os.environ.get("PARTITION_TRACES", "30"))
FIRST_TRACE = int(os.environ.get("PARTITION_FIRST_TRACE", "0"))

log = logging.getLogger(__name__)

pytest_plugins = ("support.frontier.fixtures",)


@pytest.mark.usefixtures("still")
async def test_scripts_do_what_the_model_does(redis: Redis) -> None:
    """Queues, leases, filters, needs, labels, positions and registry, also after faults."""
    found = Trace()
    for seed in range(FIRST_TRACE, FIRST_TRACE + TRACES):
        found += await replay_walk(redis, Random(seed), f"PARTITION_FIRST_TRACE={seed}")
    log.info("%s", found)
    assert found.finished > TRACES // 2
