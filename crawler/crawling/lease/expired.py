"""A grant that came to nothing."""

from __future__ import annotations

from scrapy.exceptions import IgnoreRequest


class GrantExpired(IgnoreRequest):
    """The request did not leave in time; its page is given back."""

    delay_ms = 0
    """How long it is left alone then."""
    reason = "grant_expired"
