"""The runs of a crawl, and what changed from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey

CHANGES = ("new", "gone", "status", "content")
"""How a page may differ: it has a result in one run only, or another status, or another body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlRun:
    """One run of a crawl."""

    crawl: CrawlKey
    run: int
    state: str = "running"
    """``running`` until it ended, then ``finished``, ``stopped`` or ``expired``."""
    started_at: float = 0
    """Epoch seconds."""
    ended_at: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    """admitted, done, failed, redirected, stopped, expired; of runs that have ended."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``done``, ``failed`` and ``filtered`` by reason; of runs that have ended."""


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The runs of a crawl, the latest first."""

    runs: Sequence[CrawlRun]
    is_complete: bool
    """Whether all events were looked through; if not, there may be older runs."""

    def find(self, run: int | None) -> CrawlRun | None:
        """A run by its number; without one, the latest."""
        return next((one for one in self.runs if run in (None, one.run)), None)

    def before(self, run: int) -> CrawlRun | None:
        """The run before another."""
        return next((one for one in self.runs if one.run < run), None)


@dataclass(frozen=True, slots=True)
class PageChange:
    """A page that differs."""

    url: str
    before: int | None
    """Its status in the run before; None without a result."""
    after: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two runs beside each other."""

    before: CrawlRun
    after: CrawlRun
    counts: Mapping[str, int]
    """Pages by change, and those that are the ``same``."""
    changes: Mapping[str, Sequence[PageChange]]
    """The first pages by change, in the order of their URLs."""
    share: float
    """Of all URLs, those that were compared: 1, 0.5, 0.25 …"""
    is_complete: bool
    """Whether all results were read in time; if not, those that were not count as new or gone."""
