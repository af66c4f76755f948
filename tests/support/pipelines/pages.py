"""Pages that are hard to keep: as results have them, for `results.record`."""

from __future__ import annotations

from typing import Any

HOSTILE: tuple[dict[str, Any], ...] = (
    {"body": b""},
    {"body": bytes(range(256)), "encoding": "binary"},
    {
        "body": b"a\x00b",
        "url": "http://127.0.0.7/\x00nul",
        "attrs": {"\x00k": ["v\x00", "\\u0000"]},
    },
    {"body": "\ufeffzwölf".encode("utf-16"), "encoding": "utf-16"},
    {"body": b"x" * 4_000_000},
    {"body": b"cut" * 2_000_000},
    {"body": bytes(range(256)) * 12_000, "encoding": "binary"},
    {"body": b"", "status_code": 304},
    {"body": b"again", "recovered": True},
    {"body": b"3", "attrs": {"big": 10**30, "deep": [[[{"a": None}]]]}, "links": []},
    {"body": b"4", "response_headers": {b"X": [b"\xff\xfe", b"\x00"], b"": [b""]}},
    {"body": b"5", "links": [("http://127.0.0.7/\x00", "\x00")], "ip": None},
)
