"""Partitions that are left behind when they fail, and those that are waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import NoReturn

import pytest

from crawlstream.errors import FrontierFull, RedisUnavailable
from kafka_monitor.partitions import unavailable_partitions
from kafka_monitor.partitions.cursors import Cursors
from kafka_monitor.partitions.unavailable_partitions import (
    CoordinatorUnavailable,
    UnavailablePartitions,
)


@pytest.fixture
def three(monkeypatch: pytest.MonkeyPatch) -> UnavailablePartitions:
    """If some of three partitions fail, they are left at once, and never catch up."""
    monkeypatch.setattr(unavailable_partitions, "LEAVE_AFTER_S", 0.0)

    async def catch_up(_cursors: Cursors, _partition: int) -> None:
        await asyncio.Event().wait()

    made = UnavailablePartitions(3)
    made.catch_up = catch_up
    return made


def failing(error: Exception) -> Coroutine[None, None, NoReturn]:
    """Answer of a partition that fails."""

    async def ask() -> NoReturn:
        raise error

    return ask()


async def answering(partition: int) -> int:
    """Answers of others."""
    return partition


async def test_who_lacks_a_home_is_asked_again(three: UnavailablePartitions) -> None:
    """It lacks the seeds of other coordinators too: the batch may not go on without it."""
    cursors = Cursors(("topic", 0), 0, 0)
    with pytest.raises(CoordinatorUnavailable):
        await three.each(
            cursors, {0: answering(0), 1: failing(CoordinatorUnavailable("credits", 2))}
        )
    assert set(cursors.left) == {2}
    assert cursors.unavailable == {2}
    await three.end(cursors)


async def test_the_last_one_is_waited_for(three: UnavailablePartitions) -> None:
    """A full one is called as a coordinator; if no other is left, all wait."""
    cursors = Cursors(("topic", 0), 0, 0)
    work = {0: answering(0), 1: failing(FrontierFull("full"))}
    assert await three.each(cursors, work) == {0: 0}
    assert (set(cursors.left), set(cursors.unavailable)) == ({1}, set())
    assert await three.each(cursors, {2: failing(RedisUnavailable("away"))}) == {}
    with pytest.raises(RedisUnavailable):
        await three.each(cursors, {0: failing(RedisUnavailable("away"))})
    assert set(cursors.left) == {1, 2}
    await three.end(cursors)


async def test_who_hangs_is_left_as_soon_as_that_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The time for which it was waited for counts; one that refuses at once is called first."""
    clock = [100.0]
    monkeypatch.setattr(unavailable_partitions, "time", SimpleNamespace(monotonic=lambda: clock[0]))

    async def hang() -> NoReturn:
        clock[0] += unavailable_partitions.LEAVE_AFTER_S
        raise RedisUnavailable("no answer within the time for one")

    cursors, three = Cursors(("topic", 0), 0, 0), UnavailablePartitions(3)
    three.catch_up = lambda _cursors, _partition: asyncio.sleep(0)
    with pytest.raises(RedisUnavailable):
        await three.each(cursors, {1: failing(RedisUnavailable("refused"))})
    assert not cursors.left
    assert await three.each(cursors, {0: answering(0), 2: hang()}) == {0: 0}
    assert set(cursors.left) == {2}
    await three.end(cursors)
