"""The old frontier gives up its work: nothing new begins, and what is under way ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum

from crawlstream.tasks import together
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.partitions.frontiers import Frontiers


class State(StrEnum):
    """How far a frontier is withdrawn: as far as the partition that is least."""

    WORKING = ""
    MOVING = "m"
    FROZEN = "f"


class Withdrawal:
    """Withdraws a frontier; each call may be repeated.

    Every method raises RedisUnavailable where a partition gives no answer, and NoFrontier where one
    has no data.
    """

    def __init__(self, frontiers: Frontiers) -> None:
        self._frontiers = frontiers

    async def begin(self, to: str) -> Mapping[str, int]:
        """Have nothing more begin; what is under way. ``to``: what processes are told later."""
        return (await self._ask("begin", to))[1]

    async def note(self, generations: Mapping[bytes, int]) -> None:
        """Keep what Kafka knows of crawls beside them: the latest generation of each, by name."""
        await self._ask("note", pack(generations))

    async def look(self) -> tuple[State, Mapping[str, int]]:
        """How far it is, and what is under way, by its name in ``withdraw.lua``."""
        return await self._ask("look")

    async def freeze(self) -> tuple[State, Mapping[str, int]]:
        """From now on nobody can do anything with it, unless something is under way."""
        return await self._ask("freeze")

    async def back(self) -> None:
        """Let it go on."""
        await self._ask("back")

    async def forget(self) -> None:
        """Say of what is frozen that its data may be deleted."""
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
