"""Calls to several partitions at once: their answers, and the partitions without one."""

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
"""Time for one of several partitions to answer before the others continue without it."""

T = TypeVar("T")
Question = Callable[[Frontier], Awaitable[T]]


@dataclass(frozen=True, slots=True)
class Answers(Generic[T]):
    """Answers of partitions; those without an answer are named, and nothing is assumed of them."""

    by_partition: Mapping[int, T]
    missing: Mapping[int, str]
    """Reason by partition."""

    @property
    def values(self) -> Sequence[T]:
        """Return the answers in the order of the partitions."""
        return [self.by_partition[p] for p in sorted(self.by_partition)]


class Queryable(Protocol):
    """An object that can query the partitions; see ``Frontiers``."""

    partitions: Partitions

    def __getitem__(self, partition: int) -> Frontier:
        """Return the partition with this number."""
        ...

    def name(self, partition: int) -> str:
        """Return a partition's name in messages."""
        ...

    def machine(self, partition: int) -> str:
        """Return the server that a partition is on now."""
        ...

    async def query(self, question: Question[T], *, within_s: float = ANSWER_S) -> Answers[T]:
        """Query all of them; RedisUnavailable: none answers."""
        ...


async def query_all(
    frontiers: Mapping[int, Frontier], question: Question[T], *, within_s: float = ANSWER_S
) -> Answers[T]:
    """Query several partitions at once.

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
    """Return the answer, or the reason why there is none."""
    try:
        with our_errors():
            async with asyncio.timeout(within_s):
                return await answer
    except TimeoutError:
        return _Missing(f"Redis does not answer within {within_s:g} s")
    except RedisUnavailable as error:
        return _Missing(str(error) or "Redis holds no frontier")
