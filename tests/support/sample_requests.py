"""A request of each kind, and what becomes of a record, for tests."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import RequestLimits
from crawlstream.wire.requests import decode

CRAWL: Mapping[str, Any] = {"appid": "app", "crawlid": "job", "url": "http://example.com/x"}
ACTION: Mapping[str, Any] = {"uuid": "u", "appid": "app", "spiderid": "link", "action": "info"}
STATS: Mapping[str, Any] = {"uuid": "u", "appid": "app"}
ZOOKEEPER: Mapping[str, Any] = {
    "uuid": "u",
    "appid": "app",
    "action": "domain-update",
    "domain": "example.com",
}


def raw(base: Mapping[str, Any], **more: Any) -> bytes:
    """A record with some fields changed or added."""
    return json.dumps({**base, **more}).encode()


def refusal(record: bytes | None, limits: RequestLimits | None = None) -> InvalidRequest:
    """The error that a record raises."""
    with pytest.raises(InvalidRequest) as caught:
        decode(record, limits=limits or RequestLimits())
    assert caught.value.problems
    assert all(problem.startswith("$") for problem in caught.value.problems)
    return caught.value
