"""Faults that only a frontier of several partitions can suffer: of one, and of a coordinator."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from dataclasses import replace

from crawlstream_chaos.faults import Fault, FaultContext, FaultEffect
from crawlstream_chaos.strikes.extra_processes import extra_process
from crawlstream_chaos.strikes.redis import coordinator, cuts_power, freezes, kills, one, wipes

_JOINED_S = 4
"""Within this a new kafka-monitor has been dealt some partitions of links, mostly."""


async def lag_links(context: FaultContext) -> FaultEffect:
    """Some partitions of links are read by a kafka-monitor that freezes, and goes on much later."""
    async with extra_process(context, "kafka_monitor", "run") as process:
        await asyncio.sleep(_JOINED_S)
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(context.between(2, 30 if context.is_long else 8))
        with suppress(ProcessLookupError):
            process.send_signal(signal.SIGCONT)
        await asyncio.sleep(1)
    return FaultEffect("a second kafka-monitor")


OF_PARTITIONS = [
    replace(fault, needs_partitions=True)
    for fault in (
        Fault("kill-partition", "kill -9 of the Redis of one partition", kills(one)),
        Fault("freeze-partition", "SIGSTOP of the Redis of one partition", freezes(one)),
        Fault(
            "cut-partition",
            "one partition loses what it wrote in its last moments",
            cuts_power(one),
        ),
        Fault("wipe-partition", "one partition loses its disk", wipes(one)),
        Fault("kill-home", "kill -9 of the Redis that coordinates a crawl", kills(coordinator)),
        Fault(
            "cut-home",
            "a coordinator loses what it wrote in its last moments",
            cuts_power(coordinator),
        ),
        Fault("wipe-home", "a coordinator loses its disk", wipes(coordinator)),
        Fault("lag-links", "a reader of links freezes for seconds, then goes on", lag_links),
    )
]
