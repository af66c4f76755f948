"""The throttle rules as they change."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crawlstream.errors import BadTable
from crawlstream.model.throttle import ThrottleRule, ThrottleTable
from crawlstream.throttle.parse import node_of
from crawlstream.zoo.watch import NodeWatch

OnTable = Callable[[ThrottleTable], Awaitable[None]]
OnAlarm = Callable[[BadTable], Awaitable[None]]


class ThrottleWatch(NodeWatch[ThrottleTable]):
    """Delivers the rules whenever they change; those that cannot be read raise an alarm instead."""

    def __init__(
        self,
        hosts: Sequence[str],
        path: str,
        *,
        default: ThrottleRule,
        on_table: OnTable,
        on_alarm: OnAlarm | None = None,
    ) -> None:
        """``default`` is the rule of a node that has none."""
        super().__init__(hosts, node_of(path, default), on_table=on_table, on_alarm=on_alarm)
