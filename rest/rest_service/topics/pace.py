"""How long seeds take at least, by the rules of their sites."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from crawlstream.model.request import CrawlRequest
from crawlstream.model.throttle_table import ThrottleTable

_SITES_TOLD = 10


def pace_of(seeds: Sequence[CrawlRequest], table: ThrottleTable | None) -> dict[str, Any]:
    """Return the pages, the least seconds that they take, and the slowest sites.

    Without rules or seeds, only the pages are known. Where links are followed without a limit,
    the number of pages is unknown, and the seconds are None.
    """
    if table is None or not seeds:
        return {"pages": len(seeds), "seconds": None, "sites": []}
    at = Counter(table.site_of(seed.url) for seed in seeds)
    paces = {site: _seconds_per_page(table, site) for site in at}
    slowest = sorted(paces, key=lambda site: paces[site] * at[site], reverse=True)
    pages, seconds = _whole(seeds, max(paces[site] * at[site] for site in at), paces=paces.values())
    sites = [
        {
            "site": site,
            "rule": str(table.rule_for(site)),
            "seconds_per_page": _finite(paces[site]),
        }
        for site in slowest[:_SITES_TOLD]
    ]
    return {"pages": pages, "seconds": _finite(seconds), "sites": sites}


def _whole(seeds: Sequence[CrawlRequest], seconds: float, *, paces: Any) -> tuple[int, float]:
    """All pages and their time: of the seeds, or up to the limit where links are followed."""
    if not any(seed.maxdepth for seed in seeds):
        return len(seeds), seconds
    limits = [seed.max_pages for seed in seeds if seed.max_pages]
    if not limits:
        return len(seeds), math.inf
    # At best they come from all sites alike.
    together = sum(1 / pace for pace in paces if pace)
    return max(limits), max(limits) / together if together else math.inf


def _seconds_per_page(table: ThrottleTable, site: str) -> float:
    rule = table.rule_for(site)
    is_held = table.block_of(site) is not None or not rule.effective_hits or rule.is_paused
    return math.inf if is_held else rule.window_s / rule.effective_hits


def _finite(seconds: float) -> float | None:
    return round(seconds, 3) if math.isfinite(seconds) else None
