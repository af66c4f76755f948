"""Asking partitions at once: what they answer, and which of them do not."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from crawlstream.errors import RedisUnavailable
from crawlstream.keys import Partitions
from crawlstream.tasks import together
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.scripts import our_errors

ANSWER_S = 2.0
"""How long one of several partitions may take to answer before the others go on without it."""

T = TypeVar("T")
Question = Callable[[Frontier], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """What partitions answered; those that did not are named, and nothing is guessed of them."""

    by_partition: Mapping[int, T]
    missing: Mapping[int, str]
    """Why, by partition."""

    @property
    def values(self) -> Sequence[T]:
        """In the order of the partitions."""
        return [self.by_partition[p] for p in sorted(self.by_partition)]


class Asking(Protocol):
    """Whatever can ask the partitions; see ``Frontiers``."""

    partitions: Partitions

    def __getitem__(self, partition: int) -> Frontier:
        """The partition with this number."""
        ...

    def name(self, partition: int) -> str:
        """What people call a partition."""
        ...

    def machine(self, partition: int) -> str:
        """The server that a partition is on now."""
        ...

    async def ask(self, question: Question[T], *, within_s: float = ANSWER_S) -> Answers[T]:
        """Ask all of them; RedisUnavailable: none answers."""
        ...


async def ask_all(
    frontiers: Mapping[int, Frontier], question: Question[T], *, within_s: float = ANSWER_S
) -> Answers[T]:
    """Ask several partitions at once.

    RedisUnavailable: none answered. Any other error of one of them is raised.
    """
    asked = [_in_time(question(frontier), within_s) for frontier in frontiers.values()]
    answers: dict[int, T] = {}
    missing: dict[int, str] = {}
    for p, answer in zip(frontiers, await together(asked), strict=True):
        if isinstance(answer, _Missing):
            missing[p] = answer.reason
        else:
            answers[p] = answer
    if missing and not answers:
        raise RedisUnavailable("; ".join(sorted(set(missing.values()))))
    return Answers(answers, missing)


@dataclass(frozen=True, slots=True)
class _Missing:
    reason: str


async def _in_time(answer: Awaitable[T], within_s: float) -> T | _Missing:
    """What is answered, or why nothing is."""
    try:
        with our_errors():
            async with asyncio.timeout(within_s):
                return await answer
    except TimeoutError:
        return _Missing(f"Redis does not answer within {within_s:g} s")
    except RedisUnavailable as error:
        return _Missing(str(error) or "Redis holds no frontier")
