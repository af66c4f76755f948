"""Trying again: pauses that grow, errors that are waited for, attempts that are counted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import islice

import pytest

from crawlstream.errors import Conflict, KafkaUnavailable
from crawlstream.retry import Backoff, until_available, up_to


def failing(*errors: Exception) -> Callable[[], Awaitable[str]]:
    """An attempt that raises these errors, one after the other, and then succeeds."""
    left = iter(errors)

    async def attempt() -> str:
        for error in left:
            raise error
        return "done"

    return attempt


def test_pauses_double_up_to_the_longest_and_begin_anew_after_a_success() -> None:
    """0.1, 0.2, 0.4, 0.5, 0.5 …; after ``reset`` 0.1 again."""
    backoff = Backoff(0.1, 0.5)
    assert list(islice(backoff, 5)) == [0.1, 0.2, 0.4, 0.5, 0.5]
    backoff.reset()
    assert next(backoff) == 0.1


async def test_a_service_that_is_away_is_waited_for() -> None:
    """Each failed attempt is reported with the pause that follows."""
    slept: list[float] = []
    told: list[tuple[str, float]] = []

    async def sleep(pause_s: float) -> None:
        slept.append(pause_s)

    answer = await until_available(
        failing(KafkaUnavailable("away"), KafkaUnavailable("still away")),
        backoff=Backoff(1, 8),
        on_wait=lambda error, pause_s: told.append((str(error), pause_s)),
        sleep=sleep,
    )
    assert answer == "done"
    assert told == [("away", 1), ("still away", 2)]
    assert slept == [1, 2]


async def test_an_error_that_waiting_does_not_cure_is_raised_at_once() -> None:
    """No pause is reported, for there is none."""
    told: list[object] = []
    with pytest.raises(Conflict):
        await until_available(
            failing(Conflict()),
            backoff=Backoff(1, 8),
            on_wait=lambda *problem: told.append(problem),
        )
    assert not told


async def test_the_last_of_the_attempts_raises_its_error() -> None:
    """Two of three attempts are reported; an attempt in time is the answer."""
    left: list[int] = []

    def note(_error: Exception, tries_left: int) -> None:
        left.append(tries_left)

    with pytest.raises(ValueError, match="third"):
        await up_to(
            3,
            failing(ValueError("first"), ValueError("second"), ValueError("third")),
            pause_s=0,
            on_failure=note,
        )
    assert left == [2, 1]
    assert await up_to(2, failing(ValueError()), pause_s=0, on_failure=note) == "done"


async def test_a_fatal_error_is_not_tried_again() -> None:
    """It goes up at the first attempt."""
    left: list[object] = []
    with pytest.raises(Conflict):
        await up_to(
            3,
            failing(Conflict()),
            pause_s=0,
            on_failure=lambda *problem: left.append(problem),
            fatal=(Conflict,),
        )
    assert not left
