"""How far requests have come in the partitions of the frontier, as one process knows it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from crawlstream.model.effects import IntakeBatch

Place = tuple[str, int]
"""Topic UUID and Kafka partition."""


@dataclass(slots=True)
class LeftBehind:
    """A partition of the frontier without which the others go on, until it has caught up."""

    is_unavailable: bool
    """It does not answer, and is not asked as a coordinator; else it only has no room for seeds."""
    catching_up: asyncio.Task[None] | None = None
    telling: tuple[int, int] = (0, 0)
    """Offsets of the records in progress: their refusals are reported with them."""


@dataclass(slots=True)
class Cursors:
    """The positions of one Kafka partition in all partitions of the frontier."""

    place: Place
    oldest: int
    """Offset of the oldest record that Kafka has."""
    settled_before: int
    """Offset up to which all has taken effect, as committed by the group."""
    enrolled: dict[int, int] = field(default_factory=dict)
    """Offset up to which seeds are enrolled, by coordinator."""
    taken: dict[int, int] = field(default_factory=dict)
    """Offset up to which a partition has the seeds of all available coordinators."""
    left: dict[int, LeftBehind] = field(default_factory=dict)
    """Partitions that are away or full."""
    untold: set[int] = field(default_factory=set)
    """Partitions that have refused seeds and have not been notified that this is published."""
    next: IntakeBatch | None = None
    """The batch, without its records, that all partitions have to apply."""
    moving: asyncio.Task[None] | None = None
    again_below: int = 0
    """Seeds may enter once more below it, as coordinators say."""
    past: int = 0
    """Offset below which schedule changes were made, perhaps in a Redis that was lost."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock of a batch, and of the moment in which a partition is found to have caught up."""

    @property
    def reached(self) -> int:
        """Offset that all partitions but those left behind have reached."""
        return self.next.next if self.next else 0

    @property
    def unavailable(self) -> frozenset[int]:
        """Partitions that are not asked as coordinators."""
        return frozenset(p for p, each in self.left.items() if each.is_unavailable)

    def is_even_at(self, offset: int) -> bool:
        """Return whether all have come exactly to an offset, but for those left behind."""
        positions = [*self._of_coordinators.values(), *self._of_others.values()]
        return all(position == offset for position in positions)

    def are_all_at(self, offset: int) -> bool:
        """Return whether all have come so far, but for those left behind."""
        positions = [*self._of_coordinators.values(), *self._of_others.values()]
        return all(position >= offset for position in positions)

    def settled(self, reached: int) -> int:
        """Return the offset up to which all has taken effect, if others have ``reached`` one."""
        if not self.left:
            return reached
        known = [each.get(p, 0) for p in self.left for each in (self.enrolled, self.taken)]
        return max(self.settled_before, min(reached, *known))

    def reported_elsewhere(self, but: int = -1) -> list[tuple[int, int]]:
        """Return the offsets whose refusals partitions that catch up are about to report."""
        return [each.telling for p, each in self.left.items() if p != but and each.telling[1]]

    @property
    def _of_coordinators(self) -> Mapping[int, int]:
        unavailable = self.unavailable
        return {p: position for p, position in self.enrolled.items() if p not in unavailable}

    @property
    def _of_others(self) -> Mapping[int, int]:
        return {p: position for p, position in self.taken.items() if p not in self.left}

    def coordinators_behind(self, offset: int) -> list[int]:
        """Coordinators that have to come to an offset, but for those left behind."""
        return [p for p, position in self._of_coordinators.items() if position < offset]

    def partitions_behind(self, offset: int) -> list[int]:
        """Partitions that have to come to an offset, but for those left behind."""
        return [p for p, position in self._of_others.items() if position < offset]
