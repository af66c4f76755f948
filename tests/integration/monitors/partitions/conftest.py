"""A cluster whose frontier has three partitions, in one Redis."""

from __future__ import annotations

import pytest

from support.monitors import MonitorCluster, Servers, named_after

PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> MonitorCluster:
    """The servers, with topics, keys and a node of this module's own."""
    home = tmp_path_factory.mktemp("partitions")
    divided = {"CRAWLSTREAM_PARTITIONS": str(PARTITIONS)}
    return MonitorCluster(servers, name=named_after(request.path), home=home, more=divided)
