"""Watching the rules in a real ZooKeeper: changes are seen at once, trouble changes nothing."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from kazoo.client import KazooClient
from structlog.testing import capture_logs
from structlog.typing import EventDict

from crawlstream.errors import BadTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.zoo import watcher as watcher_module
from crawlstream_chaos.processes import RunningServer
from redis_monitor.throttle_watch import ThrottleWatch
from support.session.own import own_zookeeper_server
from support.waiting import wait_until

__all__ = ["own_zookeeper_server"]

DEFAULT = ThrottleRule(hits=10, window_s=60)
RULE = "domains: {a.com: {hits: %d, window: 1}}"


class Listener:
    """Tables that a watch has delivered."""

    def __init__(self) -> None:
        self.tables: list[ThrottleTable] = []
        self.alarms: list[str] = []

    async def on_table(self, table: ThrottleTable) -> None:
        """A new version."""
        self.tables.append(table)

    async def on_alarm(self, error: BadTable) -> None:
        """A version that cannot be read."""
        self.alarms.append(str(error))

    @property
    def hits(self) -> int | None:
        """Hits of the rule for a.com in the latest table."""
        rule = self.tables[-1].rules.get("a.com") if self.tables else None
        return rule.hits if rule else None


@pytest.fixture
def hosts(zookeeper_server: RunningServer) -> list[str]:
    """Where ZooKeeper is."""
    return [f"127.0.0.1:{zookeeper_server.port}"]


@pytest.fixture
def path(fresh_name: str) -> str:
    """A node of this test's own, which does not exist yet."""
    return f"/{fresh_name}/crawler/all"


@pytest.fixture
def tool(hosts: list[str]) -> Iterator[KazooClient]:
    """Any other tool that writes the node."""
    client = KazooClient(hosts=hosts[0])
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def listener() -> Listener:
    """A listener that has received nothing yet."""
    return Listener()


@contextlib.asynccontextmanager
async def watching(hosts: list[str], path: str, listener: Listener) -> AsyncIterator[ThrottleWatch]:
    """A running watch."""
    watch = ThrottleWatch(
        hosts, path, default=DEFAULT, on_table=listener.on_table, on_alarm=listener.on_alarm
    )
    await watch.start()
    try:
        yield watch
    finally:
        await watch.stop()


async def test_a_change_is_seen_within_a_second(
    hosts: list[str], path: str, tool: KazooClient, listener: Listener
) -> None:
    """Any tool's write arrives, each version once, with the versions that fence it."""
    tool.create(path, (RULE % 1).encode(), makepath=True)
    async with watching(hosts, path, listener) as watch:
        await wait_until(lambda: listener.hits == 1)
        since = time.monotonic()
        stat = tool.set(path, (RULE % 2).encode())
        await wait_until(lambda: listener.hits == 2, every_s=0.005)
        assert time.monotonic() - since < 1
        assert len(listener.tables) == 2
        assert watch.table == listener.tables[-1]
        assert (watch.table.czxid, watch.table.mzxid) == (stat.czxid, stat.mzxid)


async def test_what_cannot_be_read_keeps_the_last_table(
    hosts: list[str], path: str, tool: KazooClient, listener: Listener
) -> None:
    """Broken YAML, empty bytes and a deleted node raise an alarm each, and nothing else."""
    tool.create(path, (RULE % 1).encode(), makepath=True)
    async with watching(hosts, path, listener) as watch:
        await wait_until(lambda: listener.hits == 1)
        good = watch.table
        tool.set(path, b"domains: [")
        await wait_until(lambda: listener.alarms)
        tool.set(path, b"")
        await wait_until(lambda: len(listener.alarms) == 2)
        tool.delete(path)
        await wait_until(lambda: len(listener.alarms) == 3)
        assert watch.table is good
    for alarm, sentence in zip(
        listener.alarms, ("not YAML", "empty", "does not exist"), strict=True
    ):
        assert sentence in alarm
    assert len(listener.tables) == 1


async def test_a_node_made_anew_is_told_as_such(
    hosts: list[str], path: str, tool: KazooClient, listener: Listener
) -> None:
    """Its creation is another, which is how the frontier knows that it may not simply obey."""
    async with watching(hosts, path, listener):
        await wait_until(lambda: listener.alarms)
        tool.create(path, (RULE % 1).encode(), makepath=True)
        await wait_until(lambda: listener.hits == 1)
        tool.delete(path)
        tool.create(path, (RULE % 2).encode())
        await wait_until(lambda: listener.hits == 2)
    assert listener.tables[-1].czxid > listener.tables[0].czxid


async def test_a_lost_session_is_replaced(
    hosts: list[str], path: str, tool: KazooClient, listener: Listener
) -> None:
    """Sees changes as before after the server has ended the session."""
    tool.create(path, (RULE % 1).encode(), makepath=True)
    async with watching(hosts, path, listener) as watch:
        await wait_until(lambda: listener.hits == 1)
        assert watch._watcher is not None
        thief = KazooClient(hosts=hosts[0], client_id=watch._watcher._client.client_id)
        thief.start()
        thief.stop()
        thief.close()
        tool.set(path, (RULE % 2).encode())
        await wait_until(lambda: listener.hits == 2)


async def test_a_callback_that_fails_is_called_again(
    hosts: list[str], path: str, tool: KazooClient
) -> None:
    """Rules that could not be copied are delivered until they can."""
    calls: list[ThrottleTable] = []

    async def on_table(table: ThrottleTable) -> None:
        calls.append(table)
        if len(calls) < 3:
            raise RuntimeError("Redis is away")

    tool.create(path, (RULE % 1).encode(), makepath=True)
    watch = ThrottleWatch(hosts, path, default=DEFAULT, on_table=on_table)
    await watch.start()
    await wait_until(lambda: len(calls) == 3)
    await asyncio.sleep(0.3)
    await watch.stop()
    assert len(calls) == 3


async def test_a_killed_zookeeper_is_waited_for(
    hosts: list[str],
    path: str,
    listener: Listener,
    zookeeper_server: RunningServer,
) -> None:
    """A watch that was running, and one begun meanwhile, both go on when the server is back."""
    editor = ThrottleEditor(hosts, path, default=DEFAULT)
    await editor.set_rule("a.com", hits=1, window=1)
    async with watching(hosts, path, listener) as watch:
        await wait_until(lambda: listener.hits == 1)
        zookeeper_server.kill()
        await wait_until(lambda: not watch.connected)
        late = Listener()
        async with watching(hosts, path, late) as begun_meanwhile:
            assert begun_meanwhile.table is None
            zookeeper_server.start()
            await wait_until(lambda: late.hits == 1)
            await editor.set_rule("a.com", hits=2, window=1)
            await wait_until(lambda: (listener.hits, late.hits) == (2, 2))
    assert not listener.alarms


def silences(logs: list[EventDict]) -> int:
    """How often it was said that ZooKeeper does not answer."""
    return sum(line.get("outcome") == "zookeeper_silent" for line in logs)


async def test_a_frozen_zookeeper_raises_an_alarm_and_no_limit(
    hosts: list[str],
    path: str,
    listener: Listener,
    zookeeper_server: RunningServer,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Silence is noticed and said once; the last rules stay, and later ones are seen."""
    monkeypatch.setattr(watcher_module, "SILENCE_ALARM_S", 1.0)
    editor = ThrottleEditor(hosts, path, default=DEFAULT)
    await editor.set_rule("a.com", hits=1, window=1)
    async with watching(hosts, path, listener) as watch:
        await wait_until(lambda: listener.hits == 1)
        with capture_logs() as logs:
            zookeeper_server.signal(signal.SIGSTOP)
            try:
                await wait_until(lambda: silences(logs) == 1)
                assert watch.table == listener.tables[-1]
            finally:
                zookeeper_server.signal(signal.SIGCONT)
            await wait_until(lambda: watch.connected)
        await editor.set_rule("a.com", hits=2, window=1)
        await wait_until(lambda: listener.hits == 2)
    assert silences(logs) == 1


async def test_a_stop_leaves_no_thread_behind(
    hosts: list[str], path: str, listener: Listener
) -> None:
    """Ends the threads of the watch, with or without answers of ZooKeeper."""

    def helpers() -> set[threading.Thread]:
        return {t for t in threading.enumerate() if not t.name.startswith("asyncio_")}

    before = helpers()
    for where in (hosts, ["127.0.0.1:1"]):
        async with watching(where, path, listener):
            await wait_until(lambda: helpers() - before)
        await wait_until(lambda: not helpers() - before)
