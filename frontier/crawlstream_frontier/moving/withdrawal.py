"""The old frontier stops: no new work begins, and work in progress ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from crawlstream.tasks import together
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.partitions.frontiers import Frontiers


class State(StrEnum):
    """State of a withdrawal: the earliest state of all partitions."""

    WORKING = ""
    MOVING = "m"
    FROZEN = "f"


class Withdrawal:
    """Withdraws a frontier; each call may be repeated.

    Every method raises RedisUnavailable if a partition does not answer, and NoFrontier if one has
    no data.
    """

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers

    async def begin(self, to: str) -> Mapping[str, int]:
        """Stop new work; return the work in progress. ``to``: the destination, to be shown."""
        return (await self._ask("begin", to))[1]

    async def note(self, generations: Mapping[bytes, int]) -> None:
        """Store the latest generation in Kafka of each crawl, keyed by crawl name."""
        await self._ask("note", pack(generations))

    async def look(self) -> tuple[State, Mapping[str, int]]:
        """Return the state, and the work in progress by its kind in ``withdraw.lua``."""
        return await self._ask("look")

    async def freeze(self) -> tuple[State, Mapping[str, int]]:
        """Let no operation have an effect until ``back``; do nothing while work is in progress."""
        return await self._ask("freeze")

    async def back(self) -> None:
        """Undo ``begin`` and ``freeze``."""
        await self._ask("back")

    async def forget(self) -> None:
        """Allow the data of a frozen frontier to be deleted."""
        await self._ask("forget")

    async def _ask(self, what: str, said: str | bytes = "") -> tuple[State, Mapping[str, int]]:
        answers = await together(
            frontier.scripts.run("withdraw", what, said) for frontier in self._frontiers
        )
        states, under_way = [], Counter[str]()
        for answer in answers:
            state, left = unpack(answer)
            states.append(State(state.decode()))
            for name, amount in zip(left[::2], left[1::2], strict=True):
                under_way[name.decode()] += int(amount)
        return min(states, key=list(State).index), under_way
