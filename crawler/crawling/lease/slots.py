"""Download slots of one process: they limit how many more pages it may lease.

A page takes a slot from its lease to its response. A slow download gives its slot to
another: servers that answer byte by byte or not at all, and unresponsive names and addresses,
cost connections but no speed.

The limit of waiting leases adapts: it grows while they depart at once, shrinks the longer they
wait, and halves when one was too late. Otherwise a process whose CPU is the bottleneck would
lease more than it can send within the half second of a grant, and give most of it back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import islice

from crawling.page.page import Page, Phase

SLOW_S = 2.0
"""Seconds after which a download gives up its slot and continues without."""
SLOW_PER_SLOT = 3
"""Slow downloads per slot; further ones take slots again."""

_FIRST_WINDOW = 16.0
_WINDOW_GROWTH = 0.25
"""Growth of the limit of waiting leases for each lease that did not wait."""
_FAIR_WAIT_S = 0.1
"""Wait of a lease that leaves the limit unchanged; a longer one lowers it. It bridges several
exchanges, and is a small part of the spacing of a domain that is visited once a second."""
_TOGETHER_S = 0.5
"""Leases that were too late within so short a time were leased together."""


class Slots:
    """Counts the pages that wait and download."""

    def __init__(
        self, count: int, clock: Callable[[], float], *, slow_per_slot: int = SLOW_PER_SLOT
    ) -> None:
        self._count = count
        self._most_slow = slow_per_slot * count
        self._clock = clock
        self._taken = self._waiting = 0
        self._connecting = 0
        self._began_at: dict[str, float] = {}
        """By token, in the order of setting out."""
        self._window = min(float(count), _FIRST_WINDOW)
        self._narrowed_at = 0.0

    def free(self) -> int:
        """Return how many more pages may be requested; may be negative."""
        free = self._count - self._taken + self._slow()
        return min(free, int(self._window) - self._waiting)

    @property
    def are_idle(self) -> bool:
        """Return whether no slot has anything to do."""
        return self._taken == self._slow()

    @property
    def unsent(self) -> int:
        """Pages whose request may leave at any moment."""
        return self._waiting + self._connecting

    def next_free_at(self) -> float:
        """Return when the next download will count as slow without other news; may be never."""
        slow = self._slow()
        if slow == self._most_slow:
            return math.inf
        return next(islice(self._began_at.values(), slow, None), self._clock()) + SLOW_S

    def _slow(self) -> int:
        """Downloads that take no slot any more."""
        since, slow = self._clock() - SLOW_S, 0
        for began_at in self._began_at.values():
            if began_at > since or slow == self._most_slow:
                break
            slow += 1
        return slow

    def take(self, page: Page) -> None:
        """Take a slot for a new page, unless it is a spare one."""
        self._taken += page.phase is Phase.WAITING
        self._waiting += page.phase is Phase.WAITING

    def move(self, page: Page, phase: Phase) -> None:
        """A page enters a phase."""
        self._waiting -= page.phase is Phase.WAITING
        self._connecting += (phase is Phase.CONNECTING) - (page.phase is Phase.CONNECTING)
        if phase is Phase.CONNECTING:
            self._began_at[page.token] = self._clock()
        elif page.phase.is_download and not phase.is_download:
            self._taken -= 1
            self._began_at.pop(page.token, None)

    def waited(self, waited_s: float) -> None:
        """Adapt the number of waiting pages to the time that a page has waited."""
        window = self._window + _WINDOW_GROWTH * (1 - waited_s / _FAIR_WAIT_S)
        self._window = min(max(window, 1.0), float(self._count))

    def were_too_late(self) -> None:
        """A grant expired: let half as many wait; once for all that were leased together."""
        if self._clock() - self._narrowed_at > _TOGETHER_S:
            self._narrowed_at = self._clock()
            self._window = max(self._window / 2, 1.0)
