"""Processes report themselves in two partitions, of which either will do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from redis.exceptions import RedisError

from crawlstream.errors import ConfigError
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, living_in
from crawlstream.stats.wishes import Wish, wish
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.partitions.frontiers import Frontiers


def _process(node: str, **values: str) -> Process:
    return Process(kind="redis-monitor", node=node, values=values)


def _heartbeat(frontiers: Frontiers, process: Process, drained: list[str]) -> Heartbeat:
    first, *also = frontiers.heartbeats
    return Heartbeat(*first, process, drain=lambda: drained.append(process.name), also=also)


async def _heard(frontiers: Frontiers) -> list[str]:
    return sorted(process.node for process in await living_in(frontiers.heartbeats))


async def test_the_loss_of_either_partition_hides_no_process(
    frontiers: Frontiers, three: Sequence[RunningServer]
) -> None:
    """Each is listed once, can be requested to end, and disagrees with equals as before."""
    first, *also = frontiers.heartbeats
    assert len(also) == 1
    drained: list[str] = []
    one, other = (_heartbeat(frontiers, _process(name, A="1"), drained) for name in ("m1", "m2"))
    for away in (0, 1):
        await one.join()
        three[away].kill()
        await other.join()
        assert await _heard(frontiers) == ["m1", "m2"]
        with pytest.raises(ConfigError, match="A is 2 here and 1 in"):
            await _heartbeat(frontiers, _process("m3", A="2"), drained).join()
        assert await _heard(frontiers) == ["m1", "m2"]
        await other.retire()
        assert await _heard(frontiers) == ["m1"]
        three[away].start()
    await wish(*first, one.process.name, Wish.DRAIN, also=also)
    await one.beat()
    await one.beat()
    assert drained == [one.process.name]
    await one.retire()


async def test_nobody_is_heard_where_both_are_away(
    frontiers: Frontiers, three: Sequence[RunningServer]
) -> None:
    """The caller gets the reason, and waits as for a single Redis."""
    heartbeat = _heartbeat(frontiers, _process("m1"), [])
    for server in three[:2]:
        server.kill()
    with pytest.raises(RedisError):
        await heartbeat.join()
    with pytest.raises(RedisError):
        await _heard(frontiers)
