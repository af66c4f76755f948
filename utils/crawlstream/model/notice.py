"""Notices to people: a crawl that ended, data that is not as expected, a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlstream.model.event import CrawlEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Notice to send; it may be sent twice, with the same ``id``."""

    id: str
    event: str
    """``crawl_finished``, ``crawl_stopped``, ``crawl_expired``, ``problem_began``,
    ``problem_ended``, ``quality_missed``, ``run_undelivered``, ``schedule_skipped``."""
    at: int
    """Epoch seconds."""
    cluster: str
    """Prefix of its topics."""
    text: str
    """Text for people: one sentence."""
    ending: CrawlEvent | None = None
    record: Mapping[str, Any] | None = None
    """Other event that it is about, as on the topic."""
    problem: str = ""
    """Code of the problem."""
