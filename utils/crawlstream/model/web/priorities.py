"""Rules by which a crawl prefers links, puts them last or leaves them out."""

from __future__ import annotations

from dataclasses import dataclass

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
    add: int = 0
    """Change of the priority that the link would have."""
    drop: bool = False
    """True if the link is left out."""
