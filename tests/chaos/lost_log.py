"""A log of ``incoming`` that loses its end, and the person who decides what becomes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable

from chaos.blows import BACK_S, Blow, Reach, held
from chaos.stage import Stage
from crawlstream.frontier.positions import Positions
from crawlstream.keys import FrontierKeys
from support.kafka_log import cut_log
from support.waiting import wait_until

Meanwhile = Callable[[int], Awaitable[None]]
"""Is called with the partition once it is known to wait, and before a person decides."""

_TOLD_S = 120
"""A person who looks has read of it within this."""


async def lose_end_of_log(reach: Reach, meanwhile: Meanwhile | None = None) -> Blow:
    """Kafka comes back without the end of a partition, whose records have all taken effect.

    The partition waits, `status` says so, and a person follows docs/operations.md.
    """
    stage = reach.stage
    async with stage.turns["kafka"]:
        in_flight, kafka = await held(reach), stage.servers["kafka"]
        await stage.by_hand("kafka", kafka.kill)
        partition = await _cut_some_log(reach)
        await stage.by_hand("kafka", kafka.start)
        await stage.by_hand("producer", stage.recorder.renew_producer)
        if partition is None:
            return Blow("kafka", in_flight, has_struck=False)
        await wait_until(lambda: _is_told(stage, partition), timeout_s=_TOLD_S, every_s=1)
        if meanwhile is not None:
            await meanwhile(partition)
        await _decide(stage, partition)
    return Blow("kafka", in_flight)


async def _cut_some_log(reach: Reach) -> int | None:
    """Take the end of a dead Kafka's log away; its partition, None if nothing has taken effect."""
    stage, topic = reach.stage, reach.stage.settings.topics.incoming
    known = await Positions(stage.redis, FrontierKeys()).known()
    positions = {partition: position for (_, partition), position in known.items() if position}
    if not positions:
        return None
    partition = reach.chance.choice(sorted(positions))
    data, position = stage.home / "data" / "kafka", positions[partition]
    begin = reach.chance.randrange(position)
    # Batches are lost as a whole, and one may begin further in front.
    while cut_log(data, topic, partition, begin) >= position:
        begin -= 1
    return partition


async def _is_told(stage: Stage, partition: int) -> bool:
    """Whether `status` names the partition, and what to type."""
    code, said = await _type(stage, "crawlstream.cli", "status", "--json")
    assert code == 0, said
    wanted = f"./crawlstream recover --partition {partition}"
    return any(warning.endswith(wanted) for warning in json.loads(said)["warnings"])


async def _decide(stage: Stage, partition: int) -> None:
    """What has come since the loss takes effect, once: as docs/operations.md has it."""
    await _all_monitors(stage, "stop")

    async def has_decided() -> bool:
        words = ("recover", "--partition", str(partition), "--from", "loss")
        code, said = await _type(stage, "crawlstream.cli", *words)
        # A group remembers for some seconds who was in it.
        assert code == 0 or "stop all kafka-monitors" in said, said
        return code == 0

    try:
        await wait_until(has_decided, timeout_s=BACK_S, every_s=1)
    finally:
        await _all_monitors(stage, "start")


async def _all_monitors(stage: Stage, verb: str) -> None:
    socket = f"unix://{stage.local.home.socket}"
    words = ("-s", socket, verb, "kafka-monitor:*")
    code, said = await _type(stage, "supervisor.supervisorctl", *words)
    assert code == 0, said


async def _type(stage: Stage, module: str, *words: str) -> tuple[int, str]:
    """Exit code of a command, and all that it has said."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *words),
        env=stage.local.environment(),
        cwd=stage.home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode or 0, said.decode()
