"""Verdicts on a family by its counters: last, then never.

Links into a family without yield go to the last band of their domain. When a page of that band is
fetched, no better page of the site waits, so all that the family could lead to has been seen. Only
then may it be refused. A path is never refused: a large family of pages with equal texts looks the
same as an endless one.
"""

from __future__ import annotations

from crawlstream_frontier.waste.families import Family, FamilyState

_JUDGED_AT = 16
_LAST_BELOW, _PAGING_LAST_BELOW = 0.10, 0.02
_SAMPLED = 16
_OPENED_BY = 3
"""New pages that take back a verdict."""
_REFUSED_AT, _REFUSED_BELOW, _REFUSED_SAMPLED = 48, 0.02, 32
_HALVED_AT, _HALVED_BY_MODULUS = 192, 40


def judge(family: Family, modulus: int) -> FamilyState | None:
    """Return the new state of a family, None if it stays; ``modulus`` is that of the texts."""
    counts = family.counts
    if counts.pages < _JUDGED_AT:
        return None
    new = counts.fresh + counts.credit_fresh
    possible = (new + counts.maybe + counts.credit_maybe) / counts.pages
    sampled = counts.fresh + counts.dup
    share = modulus * new / max(counts.heavy + modulus * sampled, 1)
    if family.state is FamilyState.OPEN:
        least = _PAGING_LAST_BELOW if family.is_paging else _LAST_BELOW
        is_last = possible < least or (sampled >= _SAMPLED and share < least)
        return FamilyState.LAST if is_last else None
    if share > _LAST_BELOW and new >= _OPENED_BY:
        return FamilyState.OPEN
    if family.state is FamilyState.LAST and not family.is_path:
        surely = possible <= _REFUSED_BELOW and counts.pages >= _REFUSED_AT
        if surely or (new == 0 and sampled >= _REFUSED_SAMPLED):
            return FamilyState.REFUSED
    return None


def age(family: Family, modulus: int) -> None:
    """Halve the counters of a family with many pages."""
    if family.counts.pages >= max(_HALVED_AT, _HALVED_BY_MODULUS * modulus):
        family.counts.halve()
