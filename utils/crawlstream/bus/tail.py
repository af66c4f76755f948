"""Reading a topic without a group: for the command line and for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence

from crawlstream.bus.records import Record


async def end_offsets(hosts: Sequence[str], topic: str) -> Mapping[int, int]:
    """Offset after the last record, by partition: "now", to be read from later."""
    raise NotImplementedError


def read_topic(
    hosts: Sequence[str],
    topic: str,
    *,
    from_beginning: bool = False,
    offsets: Mapping[int, int] | None = None,
    follow: bool = True,
) -> AsyncIterator[Record]:
    """Records of ``topic`` as they come, partition by partition in order.

    Starts at ``offsets`` (as ``end_offsets`` gave them) or at the beginning; else at the end as
    it is at the first step. Without ``follow`` it ends where the topic ended at the first step.
    """
    raise NotImplementedError
