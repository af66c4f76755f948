"""Rows of tables: which shapes of items can be one, and which are refused with a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from crawlstream.errors import ConfigError
from pipeline_service.records.rows import Shape
from pipeline_service.sinks.lake.opening import check_lake_columns
from pipeline_service.sinks.row_maker import check_columns
from pipeline_service.spec.lake import DeltaSpec
from pipeline_service.spec.sinks import SqlSpec
from pipeline_service.spec.stages import read_stages

URL = "sqlite:///x.db"


def shape(**fields: str) -> Shape:
    """Return the shape of items whose schema has these fields, each of a type."""
    stages = [{"use": "python:shop:product"}, {"use": "validate", "schema": "pydantic:shop:Item"}]
    schema = {"properties": {name: {"type": kind} for name, kind in fields.items()}}
    return Shape(read_stages(stages, "stage", Path()), schema)


def test_items_go_into_a_table() -> None:
    """The table also has the key and the place on the page."""
    made = shape(name="string", price="number")
    check_columns(made, SqlSpec(url=URL))
    assert {"id", "n", "name", "price", "_extra"} <= {column.name for column in made.columns}


@pytest.mark.parametrize(
    ("fields", "options", "sentence"),
    [
        ({"id": "integer"}, {}, "id is the key of the table: rename the field"),
        ({"Name": "string", "name": "string"}, {}, "no two differ in capitals only"),
        ({"URL": "string"}, {}, "the field 'U"),
        ({"x" * 64: "string"}, {}, "a name has 1 to 63 bytes"),
        ({"a": "string"}, {"on_repeat": "replace"}, "would leave items behind"),
        ({"a": "string"}, {"body": "ref"}, 'body = "ref" is for pages'),
    ],
)
def test_what_cannot_be_a_table_is_refused(
    fields: dict[str, str], options: dict[str, Any], sentence: str
) -> None:
    """Refuses columns that cannot be a table, before anything is read."""
    with pytest.raises(ConfigError, match=sentence):
        check_columns(shape(**fields), SqlSpec(url=URL, **options))


@pytest.mark.parametrize(
    ("fields", "options", "sentence"),
    [
        ({"Name": "string", "name": "string"}, {}, "the field 'name' has the name of another co"),
        ({"date": "string"}, {}, "the field 'date' has the name of another column, or of one in p"),
        ({"a b": "string"}, {}, "the field 'a b' cannot be a column of a table"),
        ({"a": "string"}, {"body": "bytes"}, 'body = "bytes" is for pages'),
        ({"date": "string", "a": "number"}, {"partition_by": ("appid",)}, ""),
    ],
)
def test_what_cannot_be_a_table_of_a_lake_is_refused(
    fields: dict[str, str], options: dict[str, Any], sentence: str
) -> None:
    """Its columns are those of rows, and those by which it is partitioned."""
    sink = DeltaSpec(url="x", **options)
    if not sentence:
        check_lake_columns(shape(**fields), sink)
        return
    with pytest.raises(ConfigError, match=sentence):
        check_lake_columns(shape(**fields), sink)
