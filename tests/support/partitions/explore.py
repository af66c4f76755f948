"""Explore every state that a system can be in.

States are distinguished by a hash of 64 bits, so that only those of the present depth are in
memory: with ten million states, two have the same hash in one of 400 000 explorations.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Hashable, Sequence
from typing import NamedTuple

from support.partitions.system import S, Step, System

CANNOT_END = "it cannot come to its end any more"


class Found(NamedTuple):
    """Result of an exploration."""

    states: int
    wrong: str | None
    """The law that is broken; None: all hold in every state."""
    path: Sequence[str] = ()
    """The calls that lead there, as few as possible."""


class _Graph:
    """States by number, how each was reached first, and what can follow without a fault."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._parents = array("q")
        self._names: list[str] = []
        self._befores = array("I")
        self._afters = array("I")
        self.done: list[int] = []

    def __len__(self) -> int:
        return len(self._names)

    def begin(self, state: Hashable) -> int:
        """The number of the state that all others follow."""
        return self._number(state, -1, "")[0]

    def visit(self, before: int, step: Step[S]) -> int | None:
        """Note that a state follows another; return the number of a new one."""
        number, is_new = self._number(step.after, before, step.name)
        if not step.is_fault:
            self._befores.append(before)
            self._afters.append(number)
        return number if is_new else None

    def _number(self, state: Hashable, parent: int, name: str) -> tuple[int, bool]:
        number = self._numbers.setdefault(hash(state), len(self))
        is_new = number == len(self)
        if is_new:
            self._parents.append(parent)
            self._names.append(name)
        return number, is_new

    def path(self, number: int) -> list[str]:
        """The calls by which a state was reached first."""
        names = []
        while number > 0:
            names.append(self._names[number])
            number = self._parents[number]
        return names[::-1]

    def stuck(self) -> int | None:
        """A state from which none that is done can be reached without a fault, if there is one."""
        starts, sources = self._sources()
        can_end, left = bytearray(len(self)), [*self.done]
        while left:
            number = left.pop()
            if not can_end[number]:
                can_end[number] = True
                left += sources[starts[number] : starts[number + 1]]
        stuck = can_end.find(0)
        return None if stuck < 0 else stuck

    def _sources(self) -> tuple[array[int], array[int]]:
        """The states before each state, one after the other, and where those of each begin."""
        starts = array("q", bytes(8 * (len(self) + 1)))
        for after in self._afters:
            starts[after + 1] += 1
        for number in range(len(self)):
            starts[number + 1] += starts[number]
        free, sources = starts[:], array("I", bytes(4 * len(self._befores)))
        for before, after in zip(self._befores, self._afters, strict=True):
            sources[free[after]] = before
            free[after] += 1
        return starts, sources


def explore(system: System[S], *, begin: S | None = None, most: int) -> Found:
    """Visit every state, nearest first, until a law is broken; OverflowError: more than ``most``.

    That everything can still come to its end is judged when all are known.
    """
    first, graph = system.begin() if begin is None else begin, _Graph()
    left = deque([(graph.begin(first), first)])
    while left:
        number, state = left.popleft()
        if system.is_done(state):
            graph.done.append(number)
        for step in system.steps(state):
            if wrong := system.broken(state, step):
                return Found(len(graph), wrong, [*graph.path(number), step.name])
            after = graph.visit(number, step)
            if after is not None:
                left.append((after, step.after))
        if len(graph) > most:
            raise OverflowError(f"more than {most} states")
    stuck = graph.stuck()
    if stuck is None:
        return Found(len(graph), None)
    return Found(len(graph), CANNOT_END, graph.path(stuck))


def follow(system: System[S], names: Sequence[str]) -> set[S]:
    """The states that calls of these names, one after the other, can lead to."""
    states = {system.begin()}
    for name in names:
        states = {step.after for s in states for step in system.steps(s) if step.name == name}
    return states
