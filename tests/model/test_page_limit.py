"""The page limit of a crawl in several partitions, explored; see `docs/partitions.md`.

PAGE_LIMIT_STATES=200000 ./crawlstream test tests/model/test_page_limit.py
"""

from __future__ import annotations

import os

import pytest

from support.partitions.credits import CreditBug, PageLimit
from support.partitions.explore import Found, explore

STATES = int(os.environ.get("PAGE_LIMIT_STATES", "50000"))

EXPLORED = {
    ((2, 1), 2, 0): 434,
    ((2, 2), 3, 0): 826,
    ((1, 1, 1), 2, 0): 5_435,
    ((1, 1), 1, 1): 40_872,
    ((2, 1), 2, 1): 113_542,
}
"""Links of each partition, the limit, and how many may go back in time: the number of states."""
SMALL = [(*case, states) for case, states in EXPLORED.items() if states <= STATES]

PLANTED = {
    CreditBug.CREDIT_SURVIVES: ((2, 1), 2, 1),
    CreditBug.NOT_COUNTED: ((1, 1), 1, 1),
    CreditBug.OLD_ANSWERS: ((1, 1), 1, 1),
    CreditBug.NO_NUMBER: ((2, 1), 2, 0),
    CreditBug.NO_LIFE: ((2, 1), 2, 1),
    CreditBug.OVER_TOO_SOON: ((2, 1), 2, 0),
}


@pytest.mark.parametrize(("links", "limit", "crashes", "states"), SMALL)
def test_a_limit_is_reached_and_never_exceeded(
    links: tuple[int, ...], limit: int, crashes: int, states: int
) -> None:
    """In every state that partitions, home and late messages can be in."""
    system = PageLimit(links, limit, crashes=crashes)
    assert explore(system, most=states) == Found(states, None)


@pytest.mark.parametrize("bug", CreditBug, ids=lambda bug: bug.name.lower())
def test_a_bug_exceeds_or_misses_it(bug: CreditBug) -> None:
    """Each rule is needed: without it, some order of messages admits too much, or too little."""
    links, limit, crashes = PLANTED[bug]
    assert explore(PageLimit(links, limit, crashes=crashes, bug=bug), most=STATES).wrong
