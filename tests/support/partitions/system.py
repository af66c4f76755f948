"""A system that can be explored: a first state, the steps from each state, and the laws."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, NamedTuple, Protocol, TypeVar

S = TypeVar("S", bound=Hashable)


class Step(NamedTuple, Generic[S]):
    """A call that may happen next, and the state after it."""

    name: str
    after: S
    url: str = ""
    """Whose page it is about, if it is about one."""
    is_fault: bool = False
    about: Hashable = None
    """Further data for a replay in reality."""


class System(Protocol[S]):
    """A system of calls."""

    def begin(self) -> S:
        """Nothing has happened yet."""
        ...

    def steps(self, state: S) -> Iterable[Step[S]]:
        """Every call that may happen next."""
        ...

    def broken(self, before: S, step: Step[S]) -> str | None:
        """The law that a step breaks; None: none."""
        ...

    def is_done(self, state: S) -> bool:
        """Return whether nothing is left to do."""
        ...
