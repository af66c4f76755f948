"""Watch the throttle rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crawlstream.errors import BadTable
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.throttle.parse import node_of
from redis_monitor.node_watch import NodeWatch

OnTable = Callable[[ThrottleTable], Awaitable[None]]
OnAlarm = Callable[[BadTable], Awaitable[None]]


class ThrottleWatch(NodeWatch[ThrottleTable]):
    """Delivers the rules whenever they change; unreadable rules raise an alarm instead."""

    def __init__(
        self,
        hosts: Sequence[str],
        path: str,
        *,
        default: ThrottleRule,
        on_table: OnTable,
        on_alarm: OnAlarm | None = None,
    ) -> None:
        """Watch the node at ``path``; use ``default`` if it has no default rule."""
        super().__init__(hosts, node_of(path, default), on_table=on_table, on_alarm=on_alarm)
