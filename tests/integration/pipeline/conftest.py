"""The servers that pipelines work with."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from support.pipelines.changing import Ground
from support.pipelines.cluster import PipelineCluster


@pytest.fixture
async def cluster(
    kafka_server: RunningServer, redis_server: RunningServer, fresh_name: str, tmp_path: Path
) -> PipelineCluster:
    """Topics and a folder of this test's own."""
    cluster = PipelineCluster(kafka_server, redis_server, prefix=fresh_name, home=tmp_path)
    await cluster.make_topics()
    return cluster


@pytest.fixture(params=["sqlite", "postgresql"])
def ground(request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str) -> Iterator[Ground]:
    """An empty memory of each kind."""
    url = f"sqlite:///{tmp_path}/news.db"
    if request.param == "postgresql":
        server: RunningPostgres = request.getfixturevalue("postgres_server")
        url = server.make_database(fresh_name)
    with contextlib.closing(Ground(url, tmp_path)) as ground:
        yield ground
