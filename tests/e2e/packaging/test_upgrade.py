"""A cluster of the version before becomes one of this version, process by process."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest

from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scenarios import SCENARIOS
from crawlstream_chaos.versions.before import before

PROCESSES = 5
"""Both monitors, REST, two crawlers."""


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_a_rolling_upgrade_loses_no_page_and_exceeds_no_limit(tmp_path: Path) -> None:
    """Started by the version before, full of waiting pages; one process goes back and forward.

    The auditor finds no page lost, no window exceeded, one ending of each run, and no key left.
    """
    cluster = ChaosCluster(tmp_path, pages=100, hosts=5)
    cluster.before = await asyncio.to_thread(before)
    async with cluster:
        round_ = Round(cluster, "upgrade", seed=1, seconds=0)
        outcome = await SCENARIOS["upgrade"].play(round_)
    assert not outcome.violations
    assert outcome.landed == Counter({"upgrade": PROCESSES + 1, "go-back": 1})
