"""Attributes of CloudEvents: one identity for each event, equal for its repetition."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from crawlstream.wire import jsontext
from crawlstream.wire.cloud_events import headers_of, structured

CRAWL = {"appid": "app", "crawlid": "job", "spiderid": "link", "run": 3, "server_time": 1795251152}
VERDICT = {
    "event": "guard_verdict",
    "server_time": 1795251152,
    "site": "example.com",
    "family": "?sort",
}
CHANGE = {
    "event": "page_changed",
    "url": "https://example.com/ä",
    "at": "2026-11-28T02:31:09.350000Z",
    "server_time": 1795251152,
}


def told(key: str, event: dict[str, Any]) -> dict[str, str]:
    """Return the headers of an event, as text."""
    made = headers_of("demo", key.encode(), jsontext.dumps(event))
    return {name: value.decode() for name, value in made}


@pytest.mark.parametrize(
    ("key", "event", "expected"),
    [
        (
            "app:job:3:crawl_finished",
            {"event": "crawl_finished", **CRAWL},
            ("crawl_finished:app:job:3:crawl_finished", "job", "2026-11-21T08:52:32Z"),
        ),
        (
            "3d0f",
            {"event": "page_failed", **CRAWL, "url": "http://a/"},
            ("page_failed:3d0f", "http://a/", "2026-11-21T08:52:32Z"),
        ),
        (
            "k",
            {"event": "schedule_fired", "appid": "app", "schedule": "s", "at": 1, "server_time": 2},
            ("schedule_fired:k", "s", "1970-01-01T00:00:02Z"),
        ),
        (
            "example.com",
            VERDICT,
            ("guard_verdict:example.com:?sort:1795251152", "example.com", "2026-11-21T08:52:32Z"),
        ),
        ("p:1:2", CHANGE, ("page_changed:p:1:2", "https://example.com/ä", CHANGE["at"])),
    ],
)
def test_an_event_has_the_attributes_of_the_specification(
    key: str, event: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    """Required ones, a subject and a time; over HTTP around the event, which is unchanged."""
    identity, subject, at = expected
    attributes = {
        "specversion": "1.0",
        "id": identity,
        "source": "/crawlstream/demo",
        "type": f"crawlstream.{event['event']}",
        "subject": subject,
        "time": at,
    }
    found = told(key, event)
    assert found.pop("content-type") == "application/json"
    assert found == {f"ce_{name}": value for name, value in attributes.items()}
    whole = orjson.loads(structured("demo", key, jsontext.dumps(event)))
    assert whole == {**attributes, "datacontenttype": "application/json", "data": event}


@pytest.mark.parametrize(
    "value", [b"", b"[]", b"{", b'{"event": 1}', b'{"event": "x", "server_time": 1e30}', b"\xff"]
)
def test_a_value_that_is_no_event_has_no_headers(value: bytes) -> None:
    """It is sent all the same."""
    assert headers_of("demo", None, value) == ()
