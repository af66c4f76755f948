"""Notices to people: a crawl that ended, or a problem that began or ended."""

from __future__ import annotations

from dataclasses import dataclass

from crawlstream.model.event import CrawlEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Notice to send; it may be sent twice, with the same ``id``."""

    id: str
    event: str
    """``crawl_finished``, ``crawl_stopped``, ``crawl_expired``, ``problem_began``,
    ``problem_ended``."""
    at: int
    """Epoch seconds."""
    cluster: str
    """Prefix of its topics."""
    text: str
    """Text for people: one sentence."""
    ending: CrawlEvent | None = None
    problem: str = ""
    """Code of the problem."""
