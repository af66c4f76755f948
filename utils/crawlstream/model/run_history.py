"""The runs of a crawl, and the changes from one to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crawlstream.model.crawl import CrawlKey

CHANGES = ("new", "gone", "status", "content")
"""How a page may differ: a result in only one of the runs, another status, or another body."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlRun:
    """A run of a crawl."""

    crawl: CrawlKey
    run: int
    state: str = "running"
    """``running`` until it ends, then ``finished``, ``stopped`` or ``expired``."""
    started_at: float = 0
    """Epoch seconds."""
    ended_at: float | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    """admitted, done, failed, redirected, skipped, stopped, expired; of runs that have ended."""
    reasons: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """``done``, ``failed``, ``skipped``, ``filtered``, ``dropped`` and ``reserved`` by reason;
    of runs that have ended."""


@dataclass(frozen=True, slots=True)
class RunHistory:
    """The runs of a crawl, the latest first."""

    runs: Sequence[CrawlRun]
    is_complete: bool
    """True if all events were read; otherwise there may be older runs."""

    def find(self, run: int | None) -> CrawlRun | None:
        """Return a run by its number, or the latest without a number."""
        return next((one for one in self.runs if run in (None, one.run)), None)

    def before(self, run: int) -> CrawlRun | None:
        """Return the run before another."""
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
    """Comparison of two runs."""

    before: CrawlRun
    after: CrawlRun
    counts: Mapping[str, int]
    """Number of pages by change, and number of pages that are the ``same``."""
    changes: Mapping[str, Sequence[PageChange]]
    """First pages of each change, in the order of their URLs."""
    share: float
    """Share of all URLs that were compared: 1, 0.5, 0.25 …"""
    is_complete: bool
    """True if all results were read in time; pages of unread results count as new or gone."""
