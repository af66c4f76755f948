"""Fixtures of tests that strike single partitions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawlstream_chaos.processes import RunningServer
from support.partitions.servers.crawled import Divided, crawled


@pytest.fixture
def divided(
    kafka_server: RunningServer,
    zookeeper_server: RunningServer,
    fresh_name: str,
    tmp_path: Path,
) -> Iterator[Divided]:
    """A cluster of this test's own, over three Redis."""
    with crawled((kafka_server, zookeeper_server), fresh_name, tmp_path) as divided:
        yield divided
