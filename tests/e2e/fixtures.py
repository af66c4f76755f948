"""Fixtures of the tiers that need a whole cluster; their conftests import them."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream_chaos.witness import Witness
from e2e.cluster import Cluster, session_cluster
from e2e.sites import Serve, serving_in
from support.session.lasting import lasting

_WITNESS = pytest.StashKey[Witness]()


@pytest.fixture(scope="session", name="cluster")
def cluster_fixture(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Cluster:
    """A local cluster, shared by all tests of the session."""
    return session_cluster(request, tmp_path_factory)


@pytest.fixture(scope="session", name="witness")
def witness_fixture(request: pytest.FixtureRequest, cluster: Cluster) -> Witness:
    """A plain Kafka client that has seen every record since the cluster's start."""
    stash = request.config.stash
    if _WITNESS not in stash:
        witness = stash[_WITNESS] = Witness(cluster.hosts, cluster.prefix)
        lasting(request.config).callback(witness.close)
    return stash[_WITNESS]


@pytest.fixture(name="serve")
def serve_fixture(tmp_path: Path) -> Serve:
    """Serve a web: ``async with serve(pages=…) as served``."""
    return serving_in(tmp_path)
