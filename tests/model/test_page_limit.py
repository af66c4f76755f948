"""The page limit of a crawl in several partitions, explored; see `docs/partitions.md`.

PAGE_LIMIT_STATES=200000 ./crawlstream test tests/model/test_page_limit.py
"""

from __future__ import annotations

import os
from typing import NamedTuple

import pytest

from support.partitions.explore import Found, explore
from support.partitions.limits.credits import CreditBug, PageLimit

STATES = int(os.environ.get("PAGE_LIMIT_STATES", "12000"))


class Case(NamedTuple):
    """A small crawl."""

    links: tuple[int, ...]
    """Number for each partition."""
    limit: int
    crashes: int = 0
    """Number of partitions that may go back in time."""
    late: int = 0
    """Number of draws that may come late, and again."""
    tells: bool = False
    """True if answers carry the spending of others, by which limbo is bounded."""

    def system(self, bug: CreditBug | None = None) -> PageLimit:
        """Steps that may be explored."""
        return PageLimit(
            self.links, self.limit, crashes=self.crashes, late=self.late, tells=self.tells, bug=bug
        )


EXPLORED = {
    Case((2, 1), 2, late=1): 1_099,
    Case((2, 1), 2, late=1, tells=True): 3_547,
    Case((2, 2), 3, late=1, tells=True): 11_996,
    Case((1, 1, 1), 2, tells=True): 6_592,
    Case((1, 1), 1, crashes=1): 7_484,
    Case((1, 1), 1, crashes=1, tells=True): 18_860,
    Case((2, 1), 2, crashes=1): 21_198,
    Case((1, 1), 1, crashes=1, late=1): 59_358,
}
"""The number of states of each."""
SMALL = [(case, states) for case, states in EXPLORED.items() if states <= STATES]

PLANTED = {
    CreditBug.CREDIT_SURVIVES: Case((2, 1), 2, crashes=1),
    CreditBug.NOT_COUNTED: Case((1, 1), 1, crashes=1),
    CreditBug.OLD_ANSWERS: Case((1, 1), 1, crashes=1),
    CreditBug.NO_NUMBER: Case((2, 1), 2),
    CreditBug.NO_LIFE: Case((1, 1), 1, crashes=1),
    CreditBug.OVER_TOO_SOON: Case((2, 1), 2),
    CreditBug.TIGHT_LIMBO: Case((2, 1), 2, tells=True),
    CreditBug.KEPT_AHEAD: Case((2, 1), 2),
}


@pytest.mark.parametrize(("case", "states"), SMALL)
def test_a_limit_is_reached_and_never_exceeded(case: Case, states: int) -> None:
    """Never exceeds a limit, and reaches it, in every state of partitions and messages."""
    assert explore(case.system(), most=states) == Found(states, None)


@pytest.mark.parametrize("bug", CreditBug, ids=lambda bug: bug.name.lower())
def test_a_bug_exceeds_or_misses_it(bug: CreditBug) -> None:
    """Each rule is needed: without it, some order of messages admits too much, or too little."""
    assert explore(PLANTED[bug].system(bug), most=STATES).wrong
