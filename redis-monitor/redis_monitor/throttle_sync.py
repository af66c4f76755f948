"""The throttle rules on their way from ZooKeeper into Redis, where they are applied."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_frontier.throttle_rules import ThrottleRules
from redis_monitor.table_sync import TableSync, Watch

OnCopied = Callable[[ThrottleTable, ThrottleTable], Awaitable[None]]
"""Called with the table that was in force and the one that is; what it raises ends the step."""


class ThrottleSync(TableSync[ThrottleTable]):
    """Copies the rules; the node is given the default rule of the settings if it has none."""

    event, what, remedy = "rules", "rules", "`crawlstream throttle adopt`"

    def __init__(
        self,
        rules: ThrottleRules,
        editor: ThrottleEditor,
        watch: Watch[ThrottleTable],
        *,
        scope: str = "",
        on_copied: OnCopied,
        before_first: Callable[[], Awaitable[None]],
    ) -> None:
        """``before_first`` is awaited before a Redis without rules is given any.

        From then on pages may leave, so whatever else they need must be there.
        """
        super().__init__(watch)
        self._rules = rules
        self._editor = editor
        self._scope = scope
        self._on_copied = on_copied
        self._other_tables = before_first

    async def _in_force(self) -> ThrottleTable | None:
        return await self._rules.table()

    async def _let_rule(self, table: ThrottleTable) -> bool:
        return await self._rules.copy(table)

    async def _make_node(self) -> None:
        await self._editor.seed()

    async def _before_first(self) -> None:
        await self._rules.agree(self._scope)
        await self._other_tables()

    async def _copied(self, before: ThrottleTable, after: ThrottleTable) -> None:
        await self._on_copied(before, after)

    def _size(self, table: ThrottleTable) -> dict[str, Any]:
        return {"domains": len(table.rules)}
