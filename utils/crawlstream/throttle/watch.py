"""The rules as they change: the node of ZooKeeper, watched."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from crawlstream.errors import BadThrottleConfig
from crawlstream.model.throttle import ThrottleRule, ThrottleTable

OnTable = Callable[[ThrottleTable], Awaitable[None]]
OnAlarm = Callable[[BadThrottleConfig], Awaitable[None]]


class ThrottleWatch:
    """Delivers every readable version of the rules; unreadable ones raise an alarm instead."""

    def __init__(
        self,
        hosts: Sequence[str],
        path: str,
        *,
        default: ThrottleRule,
        on_table: OnTable,
        on_alarm: OnAlarm | None = None,
    ) -> None:
        raise NotImplementedError

    @property
    def table(self) -> ThrottleTable | None:
        """The last good table; None before the first."""
        raise NotImplementedError

    @property
    def connected(self) -> bool:
        """Whether ZooKeeper answers just now."""
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to watch and return at once; ZooKeeper may be down."""
        raise NotImplementedError

    async def stop(self) -> None:
        """End the session and its threads."""
        raise NotImplementedError
