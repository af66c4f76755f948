"""Watch a table: deliver it whenever its ZooKeeper node changes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic

import structlog

from crawlstream.errors import BadTable
from crawlstream.retry import Backoff
from crawlstream.tasks import end
from crawlstream.zoo.node import Node, Table
from crawlstream.zoo.watcher import NodeWatcher

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
STOP_TIMEOUT_S = 12.0
"""Maximum wait for the thread; kazoo waits up to ten seconds for a connection in progress."""

log = structlog.get_logger()


class NodeWatch(Generic[Table]):
    """Delivers the table whenever it changes; a table that cannot be read raises an alarm instead.

    Versions in quick succession may be skipped, but never the last one. The last good table stays
    if the node is missing or unreadable, the session is lost, or the server is down or frozen. A
    callback that raises is called again with the latest table.
    """

    def __init__(
        self,
        hosts: Sequence[str],
        node: Node[Table],
        *,
        on_table: Callable[[Table], Awaitable[None]],
        on_alarm: Callable[[BadTable], Awaitable[None]] | None = None,
    ) -> None:
        self._hosts = hosts
        self._node = node
        self._on_table = on_table
        self._on_alarm = on_alarm
        self._table: Table | None = None
        self._latest: Table | BadTable | None = None
        self._news = asyncio.Event()
        self._watcher: NodeWatcher[Table] | None = None
        self._delivery: asyncio.Task[None] | None = None

    @property
    def table(self) -> Table | None:
        """Return the last good table; None before the first."""
        return self._table

    @property
    def connected(self) -> bool:
        """Return whether ZooKeeper is connected now."""
        return self._watcher is not None and self._watcher.is_connected

    async def start(self) -> None:
        """Start watching and return at once; ZooKeeper may be down."""
        loop = asyncio.get_running_loop()

        def tell(latest: Table | BadTable) -> None:
            with contextlib.suppress(RuntimeError):  # The loop may already be closed.
                loop.call_soon_threadsafe(self._hear, latest)

        self._watcher = NodeWatcher(self._hosts, self._node, tell)
        self._watcher.start()
        self._delivery = asyncio.create_task(self._deliver())

    async def stop(self) -> None:
        """End the session and its threads."""
        watcher, self._watcher = self._watcher, None
        if self._delivery is not None:
            await end([self._delivery])
        if watcher is not None:
            watcher.finish()
            await asyncio.to_thread(watcher.join, STOP_TIMEOUT_S)

    def _hear(self, latest: Table | BadTable) -> None:
        if isinstance(latest, BadTable):
            path = self._node.path
            log.error(self._node.event, outcome="unreadable", path=path, error=str(latest))
        else:
            self._table = latest
        self._latest = latest
        self._news.set()

    async def _deliver(self) -> None:
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                await self._call(self._latest)
            except Exception as error:  # noqa: BLE001  tables must arrive, whatever went wrong
                pause_s = next(backoff)
                log.warning(
                    self._node.event, outcome="not_delivered", error=repr(error), pause_s=pause_s
                )
                await asyncio.sleep(pause_s)
                self._news.set()
            else:
                backoff.reset()

    async def _call(self, latest: Table | BadTable | None) -> None:
        if isinstance(latest, BadTable):
            if self._on_alarm is not None:
                await self._on_alarm(latest)
        elif latest is not None:
            await self._on_table(latest)
