"""The tables of docs/wire.md say what the schemas say."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
import pytest

from crawlstream.model.request import Refusal
from crawlstream.wire.requests import KINDS, RequestKind, decode

PAGE = Path(__file__).parents[3] / "docs" / "wire.md"

NAMES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "object": "object",
    "array": "list",
    "boolean": "boolean",
}


def table(kind: RequestKind) -> str:
    """The table of a kind's fields, as the page shows it."""
    source = PAGE.parents[1] / "utils" / "crawlstream" / "wire" / "schema" / f"{kind.name}.json"
    schema = orjson.loads(source.read_bytes())
    rows = ["| Field | Value | Default | Meaning |", "|---|---|---|---|"]
    for name, rule in kind.schema.properties.items():
        pointer = str(rule.get("$ref", "")).removeprefix("#/$defs/")
        whole = {**schema["$defs"].get(pointer, {}), **rule}
        default = (
            "required"
            if name in schema["required"]
            else f"`{orjson.dumps(whole['default']).decode()}`"
        )
        rows.append(f"| `{name}` | {value(whole)} | {default} | {whole['description']} |")
    return "\n".join(rows)


def value(rule: Mapping[str, Any]) -> str:
    """Return the values of a field, in words."""
    if "enum" in rule:
        named = ", ".join(f"`{choice}`" for choice in rule["enum"] if choice is not None)
        return named + (" or null" if None in rule["enum"] else "")
    types = [rule["type"]] if isinstance(rule["type"], str) else rule["type"]
    words = NAMES[types[0]]
    if words == "list":
        words = "list of different texts" if rule.get("uniqueItems") else _list_of(rule)
    if words == "object" and isinstance(rule.get("additionalProperties"), dict):
        words = "object of texts"
    if words.startswith("list of") and "minItems" in rule:
        words += f", {rule['minItems']} to {rule['maxItems']}"
    least = rule.get("minLength", rule.get("minimum"))
    most = rule.get("maxLength", rule.get("maximum"))
    unit = " characters" if words == "text" else ""
    if least is not None and most is not None:
        words += f", {least} to {most}{unit}"
    elif most is not None:
        words += f", at most {most}{unit}"
    return words + (" or null" if "null" in types else "")


def _list_of(rule: Mapping[str, Any]) -> str:
    """A list whose entries may be of several types."""
    named = (NAMES[name] for name in rule["items"]["type"])
    return "list of " + " or ".join(f"{name}s" for name in named)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_page_has_the_table_of_each_kind(kind: RequestKind) -> None:
    """Names, values, defaults and meanings are those of the schema."""
    assert table(kind) in PAGE.read_text(encoding="utf-8")


def test_the_page_has_every_refusal() -> None:
    """Code and sentence."""
    text = PAGE.read_text(encoding="utf-8")
    for refusal in Refusal:
        assert f"| `{refusal}` | {refusal.sentence} |" in text


def test_the_examples_are_accepted() -> None:
    """Every request on the page is one, of the kind it stands under."""
    blocks = re.findall(r"```json\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    kinds = [type(decode(block.encode())).__name__ for block in blocks[:-2]]
    assert kinds == [
        *("CrawlRequest", "ActionRequest", "ScheduleRequest", "StatsRequest", "ZookeeperRequest")
    ]
    assert orjson.loads(blocks[-2])["status_msg"] == "OK"
    assert orjson.loads(blocks[-1])["event"] == "page_changed"
