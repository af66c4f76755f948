"""Reports why work waits that has several steps at the same time."""

from __future__ import annotations

import asyncio

from crawlstream.boot.liveness import Liveness
from crawlstream.errors import KafkaUnavailable, RedisUnavailable


async def test_waits_until_the_last_of_its_steps_waits_no_more() -> None:
    """Names what still delays it, and pauses and resumes once."""
    switched: list[str] = []
    live = Liveness(
        "answer",
        pause=lambda: switched.append("pause"),
        resume=lambda: switched.append("resume"),
    )
    kafka, redis = asyncio.Event(), asyncio.Event()

    def until(back: asyncio.Event, error: Exception) -> asyncio.Task[None]:
        async def step() -> None:
            if not back.is_set():
                raise error

        return asyncio.create_task(live.retry(step))

    first = until(kafka, KafkaUnavailable("no Kafka"))
    second = until(redis, RedisUnavailable("no Redis"))
    await asyncio.sleep(0)
    assert live.waiting_for
    kafka.set()
    await first
    assert (live.waiting_for, switched) == ("no Redis", ["pause"])
    redis.set()
    await second
    assert (live.waiting_for, switched) == ("", ["pause", "resume"])
