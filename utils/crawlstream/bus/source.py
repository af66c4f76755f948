"""Records in: one batch a partition, from positions that the caller knows."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from crawlstream.bus.records import Batch, OutOfRange

Locate = Callable[[str, int], Awaitable[int | None]]
"""(topic UUID, partition) -> offset to read from, None: the oldest record there is."""
Decide = Callable[[OutOfRange], Awaitable[int | None]]
"""Where to go on from; None: stay paused until ``seek`` is called for the partition."""


class KafkaSource:
    """Reads one topic as a member of a group, from positions that are kept elsewhere."""

    def __init__(
        self,
        hosts: Sequence[str],
        topic: str,
        *,
        group: str,
        locate: Locate,
        on_out_of_range: Decide,
        client_id: str = "crawlstream",
    ) -> None:
        raise NotImplementedError

    async def start(self) -> None:
        """Begin to read; while Kafka is down it is tried again and again in the background."""
        raise NotImplementedError

    async def stop(self) -> None:
        """Leave the group and end the thread."""
        raise NotImplementedError

    async def poll(self, timeout_s: float) -> Sequence[Batch]:
        """Next batches, at most one a partition; empty when none arrived within ``timeout_s``."""
        raise NotImplementedError

    def seek(self, partition: int, offset: int) -> None:
        """Read on from ``offset``: no batch of older reading is returned after this."""
        raise NotImplementedError

    def pause(self) -> None:
        """Fetch nothing more for now, but stay a member of the group."""
        raise NotImplementedError

    def resume(self) -> None:
        """Fetch again."""
        raise NotImplementedError

    async def commit(self, positions: Mapping[int, int]) -> None:
        """Tell Kafka how far we are, for lag tools only; errors are logged and ignored."""
        raise NotImplementedError
