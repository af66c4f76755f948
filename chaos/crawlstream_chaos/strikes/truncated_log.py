"""A log of ``incoming`` that loses its end, and the person who decides what becomes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from crawlstream.tasks import wait_until
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.facts.facts import RoundFailed
from crawlstream_chaos.faults import BACK_S, FaultContext, FaultEffect, leased
from crawlstream_chaos.kafka_log import cut_log
from crawlstream_cli.local.home import checkout

Meanwhile = Callable[[int], Awaitable[None]]
"""Is called with the partition once it is known to wait, and before a person decides."""

_TOLD_S = 120
"""A person who looks has read of it within this."""


async def lose_end_of_log(context: FaultContext, meanwhile: Meanwhile | None = None) -> FaultEffect:
    """Kafka comes back without the end of a partition, whose records have all taken effect.

    The partition waits, `status` says so, and a person follows docs/operations.md.
    """
    cluster = context.cluster
    async with cluster.turns["kafka"]:
        in_flight, kafka = await leased(context), cluster.servers["kafka"]
        await cluster.by_hand("kafka", kafka.kill)
        partition = await _cut_some_log(context)
        await cluster.by_hand("kafka", kafka.start)
        await cluster.by_hand("producer", cluster.recorder.renew_producer)
        if partition is None:
            return FaultEffect("kafka", in_flight, has_struck=False)
        await wait_until(lambda: _is_told(cluster, partition), timeout_s=_TOLD_S, every_s=1)
        if meanwhile is not None:
            await meanwhile(partition)
        await _decide(cluster, partition)
    return FaultEffect("kafka", in_flight)


async def _cut_some_log(context: FaultContext) -> int | None:
    """Take the end of a dead Kafka's log away; its partition, None if nothing has taken effect."""
    cluster, topic = context.cluster, context.cluster.settings.topics.incoming
    known = await cluster.observed.ask(lambda frontier: frontier.root.positions.known())
    positions = {partition: position for (_, partition), position in known.items() if position}
    if not positions:
        return None
    partition = context.random.choice(sorted(positions))
    data, position = cluster.home / "data" / "kafka", positions[partition]
    begin = context.random.randrange(position)
    # Batches are lost as a whole, and one may begin further in front.
    while cut_log(data, topic, partition, begin) >= position:
        begin -= 1
    return partition


async def _is_told(cluster: ChaosCluster, partition: int) -> bool:
    """Return whether `status` names the partition, and the command to type."""
    code, said = await _type(cluster, "crawlstream_cli", "status", "--json")
    _require_success(code, said)
    wanted = f"./crawlstream recover --partition {partition}"
    return any(warning.endswith(wanted) for warning in json.loads(said)["warnings"])


async def _decide(cluster: ChaosCluster, partition: int) -> None:
    """Let records since the loss take effect, once: as docs/operations.md describes."""
    await _all_monitors(cluster, "stop")

    async def has_decided() -> bool:
        words = ("recover", "--partition", str(partition), "--from", "loss")
        code, said = await _type(cluster, "crawlstream_cli", *words)
        # A group remembers for some seconds who was in it.
        if "stop all kafka-monitors" not in said:
            _require_success(code, said)
        return code == 0

    try:
        await wait_until(has_decided, timeout_s=BACK_S, every_s=1)
    finally:
        await _all_monitors(cluster, "start")


async def _all_monitors(cluster: ChaosCluster, verb: str) -> None:
    words = ("-c", str(checkout("supervisord.conf")), verb, "kafka-monitor:*")
    code, said = await _type(cluster, "supervisor.supervisorctl", *words)
    _require_success(code, said)


def _require_success(code: int, said: str) -> None:
    if code:
        raise RoundFailed(f"a command of docs/operations.md failed: {said.strip()}")


async def _type(cluster: ChaosCluster, module: str, *words: str) -> tuple[int, str]:
    """Exit code of a command, and all that it has said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        env=cluster.local.environment(),
        cwd=cluster.home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()
