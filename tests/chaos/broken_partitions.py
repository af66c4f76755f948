"""Ways to break a law between partitions on purpose; ``BREAK`` in the environment says how.

As `broken.py`: a crawler loads them as a user's spiders, ``python -m chaos.broken_partitions`` is a
redis-monitor with one of them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from crawling.publish.link_sender import LinkSender, LinkTopic
from crawlstream.model.effects import Settle
from crawlstream.model.partitions.messages import Look, OpenRun
from crawlstream_frontier import sources
from crawlstream_frontier.partitions.confirm import is_over
from redis_monitor.__main__ import main as redis_monitor
from redis_monitor.partitions import endings

LATE_S = 15.0
"""Delay of links that the end of a run does not wait for."""
PATIENT_S = 20.0

_append = LinkTopic.append
_look = endings.Endings._look


async def _append_late(self: LinkTopic, records: Sequence[tuple[int, bytes]]) -> Sequence[bytes]:
    await asyncio.sleep(LATE_S)
    return await _append(self, records)


async def _settle_first(self: LinkSender, page: Any, settle: Settle, _batch: object) -> None:
    """Do not wait until Kafka has the links of a page."""
    self._leases.spilled(page, replace(settle, need=dict(self._topic.needs)))


def _settles_first() -> None:
    setattr(LinkTopic, "append", _append_late)  # noqa: B010  mypy allows no assignment
    setattr(LinkSender, "_settle", _settle_first)  # noqa: B010


async def _append_without_need(
    self: LinkTopic, records: Sequence[tuple[int, bytes]]
) -> Sequence[bytes]:
    """Forget what others have to read before the run can end."""
    refused = await _append(self, records)
    self.needs.clear()
    return refused


async def _look_later(self: endings.Endings, runs: Sequence[OpenRun]) -> None:
    """See that partitions are idle first, and how far they have read some time after that."""
    contexts = [run.context for run in runs]
    partitions = [each.contexts for each in self._frontiers]
    first = [await partition.look(contexts) for partition in partitions]
    until = asyncio.get_running_loop().time() + PATIENT_S
    self._topic_id = self._topic_id or await self._links_topic()
    if not all(look.reports[0].is_idle for look in first):
        await _look(self, runs)
        return
    while asyncio.get_running_loop().time() < until:
        later = [await partition.look([]) for partition in partitions]
        looks = [
            Look(before.redis_epoch, now.positions, before.reports, now.late)
            for before, now in zip(first, later, strict=True)
        ]
        if is_over(runs[0], looks, 0, self._topic_id, coordinator=self._partition):
            await self._coordinator.finish(runs[0], {})
            return
        await asyncio.sleep(0.01)


LABELLED = "  relabel(c, version_life, version_number, run, state ~= 'pending')\n"
"""Stands in one place of the Lua."""
_DROP = """
  for _, key in ipairs(state == 'ended' and redis.call('KEYS', P .. 'b:*:' .. c .. '/*') or {}) do
    local pages = redis.call('LLEN', key)
    count(c, 'queued', -pages)
    count(c, 'stopped', pages)
    redis.call('DEL', key)
  end
"""


def _drop_leftovers() -> None:
    """Deletes the queued pages of a partition when their run is over."""
    read = sources.read
    text = LABELLED + _DROP
    setattr(sources, "read", lambda file: read(file).replace(LABELLED, text))  # noqa: B010


BREAKS: Mapping[str, Callable[[], None]] = {
    "settle-first": _settles_first,
    "forget-need": lambda: setattr(LinkTopic, "append", _append_without_need),
    "late-positions": lambda: setattr(endings.Endings, "_look", _look_later),
    "drop-leftovers": _drop_leftovers,
}
"""Broken processes by law: each does one thing that it must not do."""

if name := os.environ.get("BREAK"):
    BREAKS[name]()
if __name__ == "__main__":
    sys.exit(redis_monitor([]))
