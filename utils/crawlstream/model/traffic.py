"""How sites answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

FAILING_FROM = 3
"""Downloads, fewer of which tell nothing about a site."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainTraffic:
    """One domain in the last hour."""

    responses: int
    """Downloads that came to an end, those without a response included."""
    success_rate: float
    """Share of them with a status below 400."""
    latency_ms: int | None
    """Mean time from sending a request to the last byte; None where nothing came back."""
    reasons: Mapping[str, int] = field(default_factory=dict)
    """Why the others were none, the most frequent first: ``dns``, ``timeout``, ``http_404`` …"""

    per_minute: Sequence[float] = field(default=(), compare=False)
    """Downloads per minute in each quarter of an hour, the oldest first; the last is not over."""

    @property
    def is_failing(self) -> bool:
        """Whether most of what was asked lately brought nothing."""
        return self.responses >= FAILING_FROM and self.success_rate < 0.5

    @property
    def top_reason(self) -> str:
        """The most frequent of the reasons; empty: there are none."""
        return next(iter(self.reasons), "")
