"""The node's bytes as a YAML document: read strictly, written as people write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml

from crawlstream.errors import BadTable

MAX_BYTES = 1024 * 1024 - 1024
"""Maximum size; ZooKeeper closes the connection for more (jute.maxbuffer, 1 MiB with header)."""

MAX_DEPTH = 16
"""Maximum nesting; libyaml takes quadratic time, and 100 000 levels crash the process."""

MAX_VALUES = 500_000
"""Maximum values with aliases expanded; a full megabyte of rules has a third of that."""

Document = dict[str, Any]


def read_document(data: bytes, *, is_secret: bool = False) -> Document:
    """Return the mapping in ``data``, with its order and unknown keys.

    Raise BadTable with the problem; if ``is_secret``, the error contains nothing of the document.
    """
    if not data.strip():
        raise BadTable("the node is empty")
    if len(data) > MAX_BYTES:
        raise BadTable(f"the node has {len(data)} bytes, more than the {MAX_BYTES} allowed")
    document = _load(data, is_secret=is_secret)
    if not isinstance(document, dict):
        raise BadTable(f"the node holds {kind_of(document)}, not a mapping")
    return document


def write_document(document: Document) -> bytes:
    """Return ``document`` as block-style YAML in its order; raise BadTable if it is too large."""
    text = yaml.dump(
        document,
        Dumper=yaml.CSafeDumper,
        sort_keys=False,
        allow_unicode=True,
        default_flow_style=False,
        encoding="utf-8",
    )
    if len(text) > MAX_BYTES:
        raise BadTable(
            f"the node would have {len(text)} bytes, more than the {MAX_BYTES} a node can hold"
        )
    return bytes(text)


def kind_of(value: object) -> str:
    """Return a description of a value for error sentences; texts are cut."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case int() if abs(value) > 10**18:
            return "a huge number"
        case str() | int() | float():
            return repr(value)[:60]
        case _:
            return f"a {type(value).__name__}"


def _load(data: bytes, *, is_secret: bool) -> object:
    try:
        text = data.decode()
        _check_shape(yaml.parse(text, Loader=yaml.CSafeLoader))
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except UnicodeDecodeError as error:
        raise BadTable(f"the node is not UTF-8: {error.reason}") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" in line {mark.line + 1}" if mark else ""
        problem = "" if is_secret else f": {error.problem}"
        raise BadTable(f"the node is not YAML{problem}{where}") from error
    except BadTable:
        raise
    except Exception as error:
        # PyYAML raises any error of its constructors: ``!!bool x`` is a KeyError.
        problem = type(error).__name__ if is_secret else repr(error)
        raise BadTable(f"the node is not YAML: {problem}") from error


def _check_shape(events: Iterator[yaml.Event]) -> None:
    """Refuse documents that are expensive to read although they have few bytes."""
    weights: dict[str | None, int] = {}
    open_nodes: list[tuple[str | None, int]] = []
    values = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            values += _weight(weights, event.anchor)
        elif isinstance(event, yaml.NodeEvent):
            values += 1
        if isinstance(event, yaml.CollectionStartEvent):
            open_nodes.append((event.anchor, values - 1))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_nodes.pop()
            weights[anchor] = values - before
        elif isinstance(event, yaml.ScalarEvent):
            weights[event.anchor] = 1
        _check_bounds(depth=len(open_nodes), values=values)


def _weight(weights: dict[str | None, int], anchor: str | None) -> int:
    """Return the number of values of an alias; an anchor that is still open contains itself."""
    if anchor not in weights:
        raise BadTable(f"the node refers to itself by *{anchor}")
    return weights[anchor]


def _check_bounds(*, depth: int, values: int) -> None:
    if depth > MAX_DEPTH:
        raise BadTable(f"the node nests deeper than {MAX_DEPTH} levels")
    if values > MAX_VALUES:
        raise BadTable(f"the node unfolds to more than {MAX_VALUES} values")
