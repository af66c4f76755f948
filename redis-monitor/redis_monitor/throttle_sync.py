"""The throttle rules on their way from ZooKeeper into Redis, where they are applied."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import structlog

from crawlstream.errors import BadTable
from crawlstream.frontier.throttle_rules import ThrottleRules
from crawlstream.model.throttle import ThrottleTable
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.throttle.watch import OnTable, ThrottleWatch

CHECK_EVERY_S = 2.0
"""How soon a Redis that lost its rules, and so grants nothing, is given them again."""

OnCopied = Callable[[ThrottleTable, ThrottleTable], Awaitable[None]]
"""Called with the table that was in force and the one that is; what it raises ends the step."""

log = structlog.get_logger()


class ThrottleSync:
    """Copies each version of the table; an older one is refused by the frontier, and said so.

    The node is watched once it is known to have a default rule, so that a first start raises no
    alarm about a node that is just being made.
    """

    def __init__(
        self,
        rules: ThrottleRules,
        editor: ThrottleEditor,
        watch: Callable[[OnTable], ThrottleWatch],
        *,
        scope: str = "",
        on_copied: OnCopied,
    ) -> None:
        self._rules = rules
        self._on_copied = on_copied
        self._scope = scope
        self._editor = editor
        self._watch = watch(self._on_table)
        self._latest: ThrottleTable | None = None
        self._refused: ThrottleTable | None = None
        self._changed = asyncio.Event()
        self._is_watching = False

    @property
    def is_connected(self) -> bool:
        """Whether ZooKeeper answers just now."""
        return self._watch.connected

    async def stop(self) -> None:
        """Watch no more."""
        if self._is_watching:
            await self._watch.stop()

    async def step(self) -> float:
        """Copy what is not in Redis yet, then wait for the next version."""
        if not self._is_watching:
            await self._seed()
            await self._watch.start()
            self._is_watching = True
        table = self._latest
        self._changed.clear()
        if table is not None and await self._is_wanted(table):
            await self._copy(table)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CHECK_EVERY_S):
                await self._changed.wait()
        return 0.0

    async def _seed(self) -> None:
        """Give the node the default rule of the settings, once and only if it has none."""
        problem = ""
        try:
            await self._editor.seed()
        except BadTable as error:
            problem = str(error)
        if problem:
            log.error("rules", outcome="unreadable", error=problem)

    async def _on_table(self, table: ThrottleTable) -> None:
        self._latest = table
        self._changed.set()

    async def _is_wanted(self, table: ThrottleTable) -> bool:
        """Whether Redis has no rules at all, or others that this table was not refused for."""
        known = await self._rules.table()
        if known is None:
            # A Redis that lost everything: nothing is granted before it has rules again.
            await self._rules.agree(self._scope)
            return True
        is_same = (known.czxid, known.mzxid) == (table.czxid, table.mzxid)
        return not is_same and table is not self._refused

    async def _copy(self, table: ThrottleTable) -> None:
        before = await self._rules.table()
        copied = await self._rules.copy(table)
        if copied and before is not None:
            await self._on_copied(before, table)
        versions = {"czxid": table.czxid, "mzxid": table.mzxid, "domains": len(table.rules)}
        if copied:
            log.info("rules", outcome="copied", **versions)
            return
        self._refused = table
        log.error(
            "rules",
            outcome="refused",
            error="ZooKeeper's rules are older than the active ones, or the node was recreated;"
            " ignoring them. To use them: `crawlstream throttle adopt`",
            **versions,
        )
