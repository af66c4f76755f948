"""The compiled schema and jsonschema say the same of every value."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawlstream.wire.compiled import compile_schema, is_unique
from crawlstream.wire.schemas import MAX_PROBLEMS, Schema

quick = settings(max_examples=50)

SCHEMAS = {name: Schema.bundled(name) for name in ("scraper", "action", "stats", "zookeeper")}

_ATOMS = (
    st.none()
    | st.booleans()
    | st.sampled_from([0, 1, 3, 100, 101, 300, 301, 2000, 2001, -1, 5.0, 0.5, 1.5, 10**30])
    | st.sampled_from(["", "a", "abc", "a" * 40, "a" * 41, "a" * 1001, "é\n", "a\n", "\u2028"])
    | st.sampled_from(["info", "stop", "all", "queue", "GET", "POST", "domain-update"])
)
_VALUES = (
    _ATOMS
    | st.lists(_ATOMS, max_size=3)
    | st.dictionaries(st.sampled_from("ab"), _ATOMS, max_size=2)
)


@st.composite
def _objects(draw: st.DrawFn, schema: Schema) -> dict[str, Any]:
    """Mostly the fields of a schema, with values near its bounds."""
    required = {name: draw(_ATOMS) for name in ("uuid", "appid", "crawlid", "url", "spiderid")}
    names = st.sampled_from([*schema.properties, "unknown"])
    drawn = draw(st.dictionaries(names, _VALUES, max_size=4))
    kept = [name for name in required if name in schema.properties and draw(st.integers(0, 5))]
    return {**{name: draw(st.just("abc") | _ATOMS) for name in kept}, **drawn}


@pytest.mark.parametrize("name", SCHEMAS)
@quick
@given(data=st.data())
def test_both_validators_agree(name: str, data: st.DataObject) -> None:
    """The fast yes is given exactly where the explanation is empty."""
    schema = SCHEMAS[name]
    value = data.draw(_objects(schema) | _VALUES)
    assert schema.fits(value) == (not schema.problems(value))


def test_our_schemas_are_compiled() -> None:
    """No bundled schema uses a keyword that would take the slow way."""
    for schema in SCHEMAS.values():
        assert schema.fits.__module__ == "crawlstream.wire.compiled"


def test_a_schema_with_other_keywords_works_all_the_same() -> None:
    """A plugin may use all of JSON Schema; jsonschema decides then."""
    rule = {"type": "object", "properties": {"n": {"multipleOf": 5}}, "minProperties": 1}
    assert compile_schema(rule) is None
    schema = Schema(rule)
    assert schema.fits({"n": 10})
    assert not schema.fits({"n": 7})
    assert not schema.fits({})
    assert schema.problems({"n": 7})[0].startswith("$.n: 7 is not a multiple of 5")


def test_defaults_fill_what_is_absent_and_nothing_else() -> None:
    """A field that is null stays null, the input stays as it is, defaults are not shared."""
    schema = Schema({"properties": {"a": {"default": [1]}, "b": {"default": 2}, "c": {}}})
    given_value = {"b": None}
    filled = schema.filled(given_value)
    assert filled == {"a": [1], "b": None}
    filled["a"].append(2)
    assert given_value == {"b": None}
    assert schema.filled({}) == {"a": [1], "b": 2}


def test_problems_are_few_and_short() -> None:
    """An explanation does not repeat a huge or secret value."""
    value = {f"unknown{number}" * 1000: "secret" for number in range(1000)}
    problems = SCHEMAS["scraper"].problems({**value, "cookie": "x" * 2000, "priority": "secret"})
    assert len(problems) <= MAX_PROBLEMS
    assert all(len(problem) < 300 and "secret" not in problem for problem in problems)


def test_lists_are_compared_in_linear_time() -> None:
    """Mixed types do not make uniqueness quadratic; a list that is too long is not looked into."""
    schema = SCHEMAS["scraper"]
    assert is_unique([item for number in range(20_000) for item in (number, str(number))])
    mixed = [item for number in range(20_000) for item in (number, str(number))]
    assert not schema.fits({"allow_regex": mixed})
    assert "$.allow_regex: must have at most 1000 entries (got 40000)" in schema.problems(
        {"allow_regex": mixed}
    )
    assert len(schema.problems({"allow_regex": mixed[:1_000]})) == MAX_PROBLEMS
