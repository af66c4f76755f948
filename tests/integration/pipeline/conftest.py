"""The servers that pipelines work with."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream_chaos.processes import RunningServer
from support.pipelines.cluster import PipelineCluster


@pytest.fixture
async def cluster(
    kafka_server: RunningServer, redis_server: RunningServer, fresh_name: str, tmp_path: Path
) -> PipelineCluster:
    """Topics and a folder of this test's own."""
    cluster = PipelineCluster(kafka_server, redis_server, prefix=fresh_name, home=tmp_path)
    await cluster.make_topics()
    return cluster
