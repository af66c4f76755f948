"""A request to one process arrives with its heartbeats, at that process only."""

from __future__ import annotations

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.process import Process
from crawlstream.stats.complaints import LINES, note_complaint
from crawlstream.stats.heartbeat import Heartbeat, living
from crawlstream.stats.wishes import WISHED_S, Wish, wish
from crawlstream.wire import views

KEYS = FrontierKeys()


async def _heard(redis: Redis, heartbeat: Heartbeat) -> Process:
    return {one.name: one for one in await living(redis, KEYS)}[heartbeat.process.name]


async def test_the_latest_lines_are_told_while_somebody_looks(redis: Redis) -> None:
    """Sends the latest log lines with the first heartbeat after a request, and then no more."""
    watched, other = [Heartbeat(redis, KEYS, Process(kind="rest")) for _ in range(2)]
    for number in range(LINES + 1):
        note_complaint(None, "", {"level": "info", "event": f"line {number}", "url": "http://x"})
    await watched.beat()
    assert (await _heard(redis, watched)).activity.tail == []
    await wish(redis, KEYS, watched.process.name, Wish.TAIL)
    assert 0 < await redis.ttl(KEYS.wishes(watched.process.name)) <= WISHED_S
    for heartbeat in (watched, other):
        await heartbeat.beat()
    told = (await _heard(redis, watched)).activity.tail
    assert (len(told), told[0].text) == (LINES, f"line {LINES} url=http://x")
    assert told[0].level == "info"
    assert (await _heard(redis, other)).activity.tail == []
    view = views.process(await _heard(redis, watched))
    assert "tail" not in view["activity"]  # type: ignore[operator]  # a mapping
    await redis.delete(KEYS.wishes(watched.process.name))
    # The first one learns that there is no request, the next one is without.
    await watched.beat()
    await watched.beat()
    assert (await _heard(redis, watched)).activity.tail == []


async def test_a_process_drains_once(redis: Redis) -> None:
    """Drains a process once, however often its heartbeat finds the request."""
    drained: list[str] = []
    crawler = Heartbeat(redis, KEYS, Process(kind="crawler"), drain=lambda: drained.append("x"))
    other = Heartbeat(redis, KEYS, Process(kind="rest"))
    for heartbeat in (crawler, other):
        await heartbeat.beat()
    assert (await _heard(redis, crawler)).activity.can_drain
    assert not (await _heard(redis, other)).activity.can_drain
    assert drained == []
    await wish(redis, KEYS, crawler.process.name, Wish.DRAIN)
    for _ in range(3):
        await crawler.beat()
    assert drained == ["x"]
    assert not (await _heard(redis, crawler)).activity.can_drain
