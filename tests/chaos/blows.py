"""What a fault is: something with a name that strikes, lasts, and is over when its call returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random

from chaos.stage import Stage

BACK_S = 240
"""A process that died is up again within this, however busy the machine."""


@dataclass(slots=True)
class Reach:
    """What a fault has to work with."""

    stage: Stage
    chance: Random
    is_long: bool = False
    """Whether faults last as long as they are meant to be outlived."""

    def between(self, shortest: float, longest: float) -> float:
        """Some number of seconds."""
        return self.chance.uniform(shortest, longest)


@dataclass(frozen=True, slots=True)
class Blow:
    """What a fault did."""

    target: str
    in_flight: int | None = None
    """Pages that were under way where it struck; None: it touches no page."""
    has_struck: bool = True
    """False: the crawl was over before it could."""


Strike = Callable[[Reach], Awaitable[Blow]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its name, a line about it, and what it does."""

    name: str
    about: str
    strike: Strike
    began_again: bool = False
    """Whether unfinished crawls begin again after it."""
    is_for_all: bool = True
    """Whether it may be mixed with all others, and is when nobody chooses."""


async def held(reach: Reach) -> int:
    """Pages that crawlers hold now."""
    state = await reach.stage.state()
    return state.held if state else 0
