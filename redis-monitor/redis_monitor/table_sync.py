"""A table of ZooKeeper on its way into Redis, where it is applied."""

from __future__ import annotations

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

import structlog

from crawlstream.errors import BadTable
from redis_monitor.node_watch import NodeWatch

CHECK_EVERY_S = 2.0
"""How soon a Redis that lost its tables is given them again."""

log = structlog.get_logger()


class Versioned(Protocol):
    """A table at one version of its node."""

    @property
    def czxid(self) -> int:
        """Return when the node was made."""
        ...

    @property
    def mzxid(self) -> int:
        """Return when it was written."""
        ...


T = TypeVar("T", bound=Versioned)
Watch = Callable[
    [Callable[[T], Awaitable[None]], Callable[[BadTable], Awaitable[None]]], NodeWatch[T]
]


class TableSync(ABC, Generic[T]):
    """Copies each version of a table; an older one is refused by the frontier, and said so.

    The node is watched once it is known to be there, so that a first start raises no alarm about
    a node that is just being made.
    """

    event: str
    """Event name in the log."""
    what: str
    """Everyday name of the table, in the plural."""
    remedy: str
    """Remedy for a table that is refused."""

    def __init__(self, watch: Watch[T]) -> None:
        self._watch = watch(self._on_table, self._on_alarm)
        self._latest: T | None = None
        self._refused: T | None = None
        self._is_heard_of = asyncio.Event()
        """Set once the node was read, or could not be."""
        self._changed = asyncio.Event()
        self._is_watching = False

    @abstractmethod
    async def _in_force(self) -> T | None:
        """The table in Redis; None: there is none."""

    @abstractmethod
    async def _let_rule(self, table: T) -> bool:
        """Copy a table; False: it is refused."""

    @abstractmethod
    async def _make_node(self) -> None:
        """Make the node if there never was one."""

    @abstractmethod
    def _size(self, table: T) -> dict[str, Any]:
        """Return the log's fields about a table besides its version."""

    async def _before_first(self) -> None:
        """Redis has lost all: what must be done before a table is copied."""

    async def _copied(self, before: T, after: T) -> None:
        """Another table rules than before."""

    @property
    def is_connected(self) -> bool:
        """Return whether ZooKeeper answers just now."""
        return self._watch.connected

    async def stop(self) -> None:
        """Watch no more."""
        if self._is_watching:
            await self._watch.stop()

    async def step(self) -> float:
        """Copy what is not in Redis yet, then wait for the next version."""
        await self._begin()
        self._changed.clear()
        await self._copy_latest()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK_EVERY_S):
                await self._changed.wait()
        return 0.0

    async def _begin(self) -> None:
        if self._is_watching:
            return
        self._is_watching = True
        try:
            await self._seed()
        except BaseException:
            self._is_watching = False
            raise
        await self._watch.start()

    async def _seed(self) -> None:
        problem = ""
        try:
            await self._make_node()
        except BadTable as error:
            problem = str(error)
        if problem:
            log.error(self.event, outcome="unreadable", error=problem)

    async def _on_table(self, table: T) -> None:
        self._latest = table
        self._is_heard_of.set()
        self._changed.set()

    async def _on_alarm(self, _: BadTable) -> None:
        self._is_heard_of.set()

    async def _copy_latest(self) -> None:
        table = self._latest
        if table is not None and await self._is_wanted(table):
            await self._copy(table)

    async def _is_wanted(self, table: T) -> bool:
        """Return whether Redis has none at all, or another that this table was not refused for."""
        known = await self._in_force()
        if known is None:
            await self._before_first()
            return True
        is_same = (known.czxid, known.mzxid) == (table.czxid, table.mzxid)
        return not is_same and table is not self._refused

    async def _copy(self, table: T) -> None:
        before = await self._in_force()
        problem = (
            f"ZooKeeper's {self.what} are older than the active ones, or the node was recreated;"
            f" ignoring them. To use them: {self.remedy}"
        )
        try:
            copied = await self._let_rule(table)
        except BadTable as error:
            copied, problem = False, str(error)
        if copied and before is not None:
            await self._copied(before, table)
        versions = {"czxid": table.czxid, "mzxid": table.mzxid, **self._size(table)}
        if copied:
            log.info(self.event, outcome="copied", **versions)
            return
        self._refused = table
        log.error(self.event, outcome="refused", error=problem, **versions)
