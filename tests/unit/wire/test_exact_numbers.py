"""Integers of clients keep their digits, and a byte order mark is ignored, by every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from crawlstream.bus.records import Record
from crawlstream.wire import jsontext
from crawlstream_cli.common.seed_check import read_found
from crawlstream_cli.dump import View, render
from rest_service.dashboard.fields import _json
from rest_service.http.envelope import success
from rest_service.http.inputs import parse_json
from rest_service.v2.reading import RecordFilter

NUMBERS = [2**64, -(2**70), 12345678901234567890123, 10**4299]


def _kafka(raw: bytes) -> Record:
    return Record(topic="t", partition=0, offset=0, key=None, value=raw, timestamp_ms=0)


READERS: dict[str, Callable[[bytes], Any]] = {
    "jsontext": jsontext.loads,
    "feed, lines": lambda raw: next(iter(read_found([raw], is_table=False))).request,
    "dump": lambda raw: json.loads(render(_kafka(raw), View())),
    "dump, indented": lambda raw: json.loads(render(_kafka(raw), View(pretty=True))),
    "REST, bodies": lambda raw: parse_json(raw, "no"),
    "REST, records": lambda raw: RecordFilter().pick(_kafka(raw)),
    "dashboard, forms": lambda raw: _json(raw.decode()),
}


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{len(str(number))} digits")
@pytest.mark.parametrize("mark", [b"", jsontext.BYTE_ORDER_MARK], ids=["plain", "marked"])
@pytest.mark.parametrize("way", READERS)
def test_every_reader_keeps_the_digits(way: str, mark: bytes, number: int) -> None:
    """Keeps all digits for every reader, with or without a byte order mark."""
    value = {"url": "http://x", "attrs": {"n": number}}
    assert READERS[way](mark + json.dumps(value).encode()) == value


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: f"{len(str(number))} digits")
def test_every_writer_keeps_the_digits(number: int) -> None:
    """Answers of REST have them too."""
    value = {"attrs": {"n": number}}
    assert json.loads(bytes(success(value).body))["data"] == value


def test_what_is_no_json_is_a_value_error() -> None:
    """Raises ValueError for text that is not JSON, also where the standard library would not."""
    for raw in (b"[" * 100_000 + b"9" * 20, b"9" * 5000, b"{"):
        with pytest.raises(ValueError, match=r"."):
            jsontext.loads(raw)
