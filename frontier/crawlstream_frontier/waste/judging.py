"""Verdicts on a family by its counters: last, then never.

Links into a family without yield go to the last band of their domain. When a page of that band is
fetched, no better page of the site waits, so all that the family could lead to has been seen. Only
then may it be refused.

A large family of pages with equal texts looks the same as an endless one, so its site is asked for
a *made-up neighbour*, a URL that nothing links to. Where that may not be done (``asks``), paths are
never refused, and parameters only on more evidence. Other hosts are never asked for: a made-up one
would be another server.
"""

from __future__ import annotations

from crawlstream_frontier.waste.families import MOST_MISSING, Family, FamilyState, YieldCounts

_JUDGED_AT = 16
_LAST_BELOW, _PAGING_LAST_BELOW = 0.10, 0.02
_SAMPLED = 16
_OPENED_BY = 3
"""Number of new pages that revoke a verdict."""
_REFUSED_AT, _REFUSED_BELOW, _REFUSED_SAMPLED = 48, 0.02, 32
_HALVED_AT, _HALVED_BY_MODULUS = 192, 40


def judge(family: Family, modulus: int, *, asks: bool) -> FamilyState | None:
    """Return the new state of a family, None if it stays; ``modulus`` is that of the texts.

    ``asks``: whether sites are asked for made-up neighbours.
    """
    counts = family.counts
    if counts.pages < _JUDGED_AT:
        return None
    new = counts.fresh + counts.credit_fresh
    sampled = counts.fresh + counts.dup
    share = modulus * new / max(counts.heavy + modulus * sampled, 1)
    if family.state is FamilyState.OPEN:
        least = _PAGING_LAST_BELOW if family.is_paging else _LAST_BELOW
        is_last = _possible(counts) < least or (sampled >= _SAMPLED and share < least)
        return FamilyState.LAST if is_last else None
    if share > _LAST_BELOW and new >= _OPENED_BY:
        return FamilyState.OPEN
    if family.state is FamilyState.LAST and _may_be_refused(family, asks=asks):
        return FamilyState.REFUSED
    return None


def wants_neighbour(family: Family) -> bool:
    """Return whether nothing but a made-up neighbour is missing for a family to be refused."""
    may_be_asked = not (family.is_host or family.is_confirmed or family.is_dropped)
    is_waiting = family.state is FamilyState.LAST and family.missing < MOST_MISSING
    return may_be_asked and is_waiting and _brings_nothing(family.counts, _SAMPLED)


def answer(family: Family, *, is_there: bool) -> None:
    """Take in what a site said to a made-up neighbour of a family.

    Without one, counting starts again: the next neighbour is made up after as many pages.
    """
    if not wants_neighbour(family):
        return
    if is_there:
        family.is_confirmed = True
    else:
        family.missing += 1
        family.counts = YieldCounts()


def age(family: Family, modulus: int) -> None:
    """Halve the counters of a family with many pages."""
    if family.counts.pages >= max(_HALVED_AT, _HALVED_BY_MODULUS * modulus):
        family.counts.halve()


def _may_be_refused(family: Family, *, asks: bool) -> bool:
    if asks and not family.is_host:
        return family.is_confirmed and _brings_nothing(family.counts, _SAMPLED)
    return not family.is_path and _brings_nothing(family.counts, _REFUSED_SAMPLED)


def _brings_nothing(counts: YieldCounts, least: int) -> bool:
    """Return whether pages of the last band were not new; ``least``: pages in the sample."""
    if counts.pages < _JUDGED_AT:
        return False
    if counts.pages >= _REFUSED_AT and _possible(counts) <= _REFUSED_BELOW:
        return True
    return not (counts.fresh or counts.credit_fresh) and counts.dup >= least


def _possible(counts: YieldCounts) -> float:
    """Return the pages that may be new, a page."""
    new = counts.fresh + counts.credit_fresh + counts.maybe + counts.credit_maybe
    return new / counts.pages
