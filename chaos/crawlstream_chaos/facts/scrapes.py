"""Observations of clients that scrape: the answers of REST, the seeds that it has fed, replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream_chaos.witness import SeenRecord

SCRAPED = "/scraped/"
"""How the paths of scraped pages begin; no crawl has one of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScrapeAnswer:
    """An answer of a REST process about a scrape."""

    id: str
    process: int
    """Its port."""
    at: float
    """When it came, in ms of the monotonic clock."""
    status: int
    state: str = ""
    reason: str = ""
    """Reason why the page failed."""
    page: Mapping[str, Any]
    """URL, id and place of a page that is done; else empty."""

    @property
    def told(self) -> str:
        """The answer in short; equal if two processes say that the page is the same."""
        if self.status != 200:
            return f"HTTP {self.status}"
        return f"page {self.page.get('id')}" if self.state == "done" else f"failed: {self.reason}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenScrapes:
    """Scrapes of a round, while a crawl waited for the same sites."""

    share: float
    """Part of a site's requests that scrapes may have."""
    room: int
    """Scrapes that may be in progress at a site."""
    since: float
    """Time from which the crawl had pages of each site; ms of the monotonic clock."""
    until: float
    fed: Mapping[str, str]
    """URL of each seed on the topic of requests, by id."""
    answers: Sequence[ScrapeAnswer]
    """Answers to clients."""
    final: Sequence[ScrapeAnswer]
    """Answers of each process about each id, when all of them had ended."""
    processes: Sequence[int]
    """Ports of the processes that gave the final answers."""
    records: Sequence[SeenRecord]
    """Results and replies of these scrapes."""
