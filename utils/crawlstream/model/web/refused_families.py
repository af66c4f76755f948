"""Families of URLs that the waste guard has refused in a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

MOST_NAMED = 20
"""Families that an ending or a reply names, those with the highest counts."""
_PARTS = 3


@dataclass(frozen=True, slots=True)
class RefusedFamily:
    """A family of URLs of a site, and what was refused of it."""

    site: str
    family: str
    reason: str
    """Reason of its links under ``filtered``, and of its pages in ``pages_skipped`` events."""
    count: int
    """Number of links that were left out, and of pages that were skipped."""


def counter_of(reason: str, site: str, family: str) -> str:
    """Return the name of the counter of a family; none of the texts has a space."""
    return f"{reason} {site} {family}"


def refused_families(counters: Mapping[str, int]) -> Sequence[RefusedFamily]:
    """Return the families of some counters with the highest counts."""
    families = []
    for name, count in counters.items():
        parts = name.split(" ")
        if len(parts) == _PARTS and count > 0:
            reason, site, family = parts
            families.append(RefusedFamily(site, family, reason, count))
    return sorted(families, key=lambda each: (-each.count, each.site, each.family))[:MOST_NAMED]


def as_records(families: Iterable[RefusedFamily]) -> list[dict[str, object]]:
    """Return families as endings and replies name them."""
    return [asdict(family) for family in families]
