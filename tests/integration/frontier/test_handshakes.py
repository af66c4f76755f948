"""The TLS profile for a site, as a real Redis has it for all workers."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream_frontier.egress.handshakes import REMEMBERED_MS, Handshakes
from crawlstream_frontier.frontier import Frontier

KEYS = FrontierKeys()
THREE = ["default", "legacy", "third"]


@pytest.fixture
def handshakes(redis: Redis) -> Handshakes:
    """Notes of this test's own."""
    return Frontier(redis, KEYS).handshakes


async def test_a_failed_handshake_moves_on_to_the_next_profile_for_a_day(
    handshakes: Handshakes, redis: Redis
) -> None:
    """Changes the profile of that pool and domain only; after the last comes the first."""
    assert await handshakes.profile("de", "a.test") is None
    assert await handshakes.failed("de", "a.test", "default", THREE) == ("legacy", True)
    assert await handshakes.profile("de", "a.test") == "legacy"
    assert REMEMBERED_MS - 10_000 < await redis.pttl(KEYS.tls("de", "a.test")) <= REMEMBERED_MS
    assert await handshakes.profile("de", "b.test") is None
    assert await handshakes.profile("fr", "a.test") is None
    assert await handshakes.failed("de", "a.test", "legacy", THREE) == ("third", True)
    assert await handshakes.failed("de", "a.test", "third", THREE) == ("default", True)
    assert await handshakes.profile("de", "a.test") is None


async def test_workers_that_fail_together_move_on_once(handshakes: Handshakes) -> None:
    """All of them get the same profile, and one has decided it."""
    told = [handshakes.failed("de", "a.test", "default", THREE) for _ in range(20)]
    answers = await asyncio.gather(*told)
    assert {profile for profile, _ in answers} == {"legacy"}
    assert sum(has_moved for _, has_moved in answers) == 1


async def test_a_note_of_a_profile_that_the_pool_has_lost_is_none(
    handshakes: Handshakes, redis: Redis
) -> None:
    """An operator has taken it out: pages begin with the first one again, and may move on."""
    await redis.set(KEYS.tls("de", "a.test"), "third")
    two = ["default", "legacy"]
    assert await handshakes.failed("de", "a.test", "third", two) == ("default", False)
    assert await handshakes.failed("de", "a.test", "default", two) == ("legacy", True)
