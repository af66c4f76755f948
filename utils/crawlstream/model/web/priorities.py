"""Rules by which a crawl prefers links, puts them last or leaves them out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

MOST_RULES = 32
"""Rules of a crawl: each link is compared with all of them."""
STEP = 10
"""Priorities are multiples of it, so that a domain has few queues."""
FARTHEST = 1_000
"""Largest change of a priority by one rule."""
MOST_CHANGES = 8
"""Different changes of a crawl; a domain has 64 queues, and lower levels add theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityRule:
    """Conditions of a link, all of which must hold, and the consequence.

    A rule without conditions holds for every link.
    """

    match: str | None = None
    """RE2 expression that is found in the URL."""
    types: tuple[str, ...] | None = None
    """File extensions of the URL, in lower case and without a dot."""
    depth: tuple[int, int] | None = None
    """First and last level of depth."""
    hosts: tuple[str, ...] | None = None
    """Hosts with their subdomains, as in ``allowed_domains``."""
    text: str | None = None
    """RE2 expression that is found in the text of the link, or the title in a sitemap."""
    add: int | None = None
    """Change of the priority that the link would have; None: it is left out."""
    drop: bool = False
    """True if the link is left out."""


def rules_below(rules: Sequence[PriorityRule], depth: int) -> Sequence[PriorityRule]:
    """Return the rules as they hold below a page of a depth that becomes a seed."""
    return [
        replace(rule, depth=(max(rule.depth[0] - depth, 0), rule.depth[1] - depth))
        if rule.depth
        else rule
        for rule in rules
        if not rule.depth or rule.depth[1] >= depth
    ]
