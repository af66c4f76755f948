"""How sites answer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainTraffic:
    """One domain in the last hour."""

    responses: int
    """Downloads that came to an end, those without a response included."""
    success_rate: float
    """Share of them with a status below 400."""
    latency_ms: int | None
    """Mean time from sending a request to the last byte; None where nothing came back."""
