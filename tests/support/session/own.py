"""A Redis for one file of tests: limits of memory mean little where others have left theirs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crawlstream.chaos.processes import RunningServer
from support import servers


@pytest.fixture(scope="module", name="redis_server")
def own_redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A new Redis; scripts that other tests have loaded would be most of a small one."""
    with servers.redis(tmp_path_factory.mktemp("redis")) as server:
        yield server
