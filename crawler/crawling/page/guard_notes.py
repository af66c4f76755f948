"""Decisions of the waste guard about the links of a page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from crawlstream.model.web.refused_families import counter_of
from crawlstream_frontier.waste.families import label_of


@dataclass(slots=True)
class GuardNotes:
    """Links of a page that were left out or put last."""

    refused: Counter[str] = field(default_factory=Counter)
    """Number of links by the reason under ``filtered``."""
    last: int = 0
    """Number of links that wait until nothing else of their domain waits."""
    families: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of links, or the page itself, by reason and name of the refused family."""
    left_out: set[str] = field(default_factory=set)
    """URLs of the refused links, as the spider has named them."""

    def of_site(self, site: str) -> Mapping[str, int]:
        """Return what was refused, by the counter of each family of a site."""
        return {
            counter_of(reason, site, label_of(family)): count
            for (reason, family), count in self.families.items()
        }

    def of_result(self) -> Mapping[str, object] | None:
        """Return the field of a result; None if nothing was decided."""
        found: dict[str, object] = {}
        if self.refused:
            found["refused"] = dict(self.refused)
        if self.last:
            found["last"] = self.last
        return found or None
