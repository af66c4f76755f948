"""The schema of results for Kafka Connect fits the results."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from crawlstream.wire import jsontext
from pipeline_service.commands.kafka_connect import connect_schema
from support.documented import DOCS
from support.pipelines.pages import HOSTILE
from support.pipelines.results import record

FILE = DOCS / "connect" / "result.json"
PLAIN = {"string": str, "int64": int, "double": float, "boolean": bool}


def fits(schema: Mapping[str, Any], value: Any) -> bool:
    """Return whether Connect's JsonConverter takes a value of JSON for this type."""
    kind = schema["type"]
    if value is None:
        return bool(schema.get("optional"))
    if kind == "array":
        return isinstance(value, list) and all(fits(schema["items"], each) for each in value)
    if kind == "map":
        return isinstance(value, dict) and all(
            fits(schema["values"], each) for each in value.values()
        )
    if kind == "struct":
        return all(fits(each, value.get(each["field"])) for each in schema["fields"])
    return type(value) is PLAIN[kind]


@pytest.mark.parametrize("page", [{}, *HOSTILE], ids=str)
def test_every_result_fits(page: dict[str, Any]) -> None:
    """Fits every result, whatever the page holds, and has all required fields."""
    told: Any = jsontext.loads(record(1, **page))
    for only_flat in (False, True):
        assert fits(connect_schema(only_flat=only_flat), told)
    missing = set(told) - {each["field"] for each in connect_schema()["fields"]}
    assert missing <= {"attrs", "status_msg"}


def test_the_file_is_current() -> None:
    """``docs/connect/result.json`` is what the command prints."""
    text = jsontext.dumps(connect_schema()).decode() + "\n"
    if os.environ.get("UPDATE_DOCS") == "1":
        FILE.write_text(text, encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == text


def test_tables_get_columns_without_lists() -> None:
    """Leaves out lists and maps, and nothing else."""
    whole, flat = (
        {each["field"] for each in connect_schema(only_flat=o)["fields"]} for o in (False, True)
    )
    lists = {"directives", "links", "redirect_urls", "request_headers", "response_headers"}
    assert whole - flat == lists
