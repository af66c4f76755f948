"""Fixtures of all tiers: real servers, started once by the first test that asks."""

from __future__ import annotations

import gc
import importlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from typing import Any

import hypothesis
import pytest
import structlog
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres, postgres
from support import servers
from support.session import shared
from support.session.costs import write_costs
from support.session.lasting import lasting, may_share
from support.session.names import fresh
from support.session.scheduling import ByCluster
from support.waiting import WaitUntil
from support.waiting import wait_until as _wait_until

if "PYTEST_XDIST_WORKER" in os.environ:
    # A worker collects all tests, and this import takes longer the more there is already.
    importlib.import_module("scrapy.core.downloader.handlers.http11")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell ignores it for processes in the background; those started here must obey it.
    signal.signal(signal.SIGINT, signal.default_int_handler)


# How long an example takes depends on what else the machine does.
hypothesis.settings.register_profile("crawlstream", deadline=None)
hypothesis.settings.load_profile("crawlstream")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Collect ten thousand tests without garbage collections, and exclude them from later ones."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a whole cluster come first, then one long file that few could wait for."""
    items.sort(key=lambda item: (not may_share(item), not item.nodeid.startswith("tests/mutation")))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """A cluster that is not needed any more costs the others a tenth of a CPU."""
    if not may_share(item):
        lasting(item.config).close()


def pytest_unconfigure(config: pytest.Config) -> None:
    """Nothing outlives the tests."""
    lasting(config).close()
    shared.end_all(config)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the seconds of each folder where ``--durations`` asks for the slowest tests."""
    if config.option.durations is not None:
        write_costs(terminalreporter)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """The servers that workers share belong to this run."""
    shared.tell_worker(node.config, node.workerinput)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> ByCluster | None:
    """As few whole clusters as do."""
    return ByCluster(config, log) if config.option.dist == "loadfile" else None


@pytest.fixture(autouse=True)
def logs_set_up_anew() -> Iterator[None]:
    """A command that ran in this process sent its logs to a stream that is closed by now."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A Redis configured as a local cluster's; a test that kills it starts it again."""
    with servers.redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_server(request: pytest.FixtureRequest) -> RunningServer:
    """A ZooKeeper configured as a local cluster's; all workers share it."""
    return shared.shared("zookeeper", request.config)


@pytest.fixture(scope="session")
def kafka_server(request: pytest.FixtureRequest) -> RunningServer:
    """A Kafka configured as a local cluster's, without topics of its own; all workers share it."""
    return shared.shared("kafka", request.config)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[RunningPostgres]:
    """A PostgreSQL; a test that kills it starts it again."""
    with postgres() as server:
        yield server


@pytest.fixture
async def redis(redis_server: RunningServer) -> AsyncIterator[Redis]:
    """A client of an empty Redis."""
    async with Redis(host="127.0.0.1", port=redis_server.port) as client:
        await client.flushall()
        yield client


@pytest.fixture
def fresh_name() -> str:
    """A name that no other test of the run has: a topic prefix, a group, a node."""
    return fresh("test")


@pytest.fixture
def wait_until() -> WaitUntil:
    """See :func:`support.waiting.wait_until`."""
    return _wait_until
