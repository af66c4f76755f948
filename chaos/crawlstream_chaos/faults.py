"""Interface of a fault: it has a name, is injected, lasts, and is over when its call returns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from random import Random

from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.cluster import ChaosCluster

BACK_S = 240
"""A process that died is up again within this, however busy the machine."""


@dataclass(slots=True)
class FaultContext:
    """Objects that a fault can use."""

    cluster: ChaosCluster
    random: Random
    is_long: bool = False
    """True if faults last for the longest time that must be survived."""
    crawls: Sequence[CrawlKey] = ()
    """Crawls of the round."""

    def between(self, shortest: float, longest: float) -> float:
        """Some number of seconds."""
        return self.random.uniform(shortest, longest)


@dataclass(frozen=True, slots=True)
class FaultEffect:
    """Effect of a fault."""

    target: str
    in_flight: int | None = None
    """Pages that were in flight where it struck; None: it touches no page."""
    has_struck: bool = True
    """False: the crawl was over before it could."""


Inject = Callable[[FaultContext], Awaitable[FaultEffect]]


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault by its name, a line about it, and what it does."""

    name: str
    about: str
    inject: Inject
    began_again: bool = False
    """True if unfinished crawls begin again after it."""
    is_for_all: bool = True
    """True if it may be mixed with all others, and is by default."""
    needs_partitions: bool = False
    """True if it needs a frontier of several partitions."""


async def leased(context: FaultContext) -> int:
    """Pages that crawlers hold now."""
    state = await context.cluster.state()
    return state.held if state else 0
