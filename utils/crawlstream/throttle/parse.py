"""The node's YAML, strictly read."""

from __future__ import annotations

from crawlstream.model.throttle import ThrottleRule, ThrottleTable


def parse_table(data: bytes, *, default: ThrottleRule, czxid: int, mzxid: int) -> ThrottleTable:
    """Read the node's bytes; BadThrottleConfig names the domain and field that is wrong."""
    raise NotImplementedError
