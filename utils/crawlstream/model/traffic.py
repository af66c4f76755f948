"""Traffic statistics of sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FAILING_FROM = 3
"""Downloads that are needed to judge a site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainTraffic:
    """Downloads from a domain in the last hour."""

    responses: int
    """Completed downloads, including those without a response."""
    success_rate: float
    """Share of them with a status below 400."""
    latency_ms: int | None
    """Mean time from sending a request to the last byte; None without any response."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Failures by reason, the most frequent first: ``dns``, ``timeout``, ``http_404`` …"""

    per_minute: Sequence[float] = field(default=(), compare=False)
    """Downloads per minute in each quarter of an hour, oldest first; the last is incomplete."""

    @property
    def is_failing(self) -> bool:
        """Return whether most of the recent downloads failed."""
        return self.responses >= FAILING_FROM and self.success_rate < 0.5

    @property
    def top_reason(self) -> str:
        """Return the most frequent of the reasons; empty: there are none."""
        return next(iter(self.reasons), "")
