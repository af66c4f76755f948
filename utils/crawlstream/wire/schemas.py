"""JSON Schemas (draft 2020-12): check values, describe problems in sentences, fill in defaults.

They are stricter than the specification in one point: ``5.0`` is not an integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from importlib import resources
from itertools import islice
from typing import Any

import orjson
from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

from crawlstream.wire.compiled import compile_schema, is_unique
from crawlstream.wire.strict import type_name

MAX_PROBLEMS = 10
"""Maximum sentences about a value; more would not help its reader."""

_LONGEST_QUOTE = 100
_LONGEST_NUMBER = 40


class Schema:
    """Schema of a kind of object; raise ``jsonschema.SchemaError`` for an invalid schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        Draft202012Validator.check_schema(schema)
        self.title: str = schema.get("title", "")
        self.properties: Mapping[str, Any] = schema.get("properties", {})
        self.shapes: Mapping[str, Any] = schema.get("$defs", {})
        """Named schemas that several properties share."""
        self._validator = _Validator(schema)
        self.fits: Callable[[Any], bool] = compile_schema(schema) or self._validator.is_valid
        """Function that returns whether a value is of this kind."""

    @classmethod
    def bundled(cls, name: str) -> Schema:
        """Return a schema that is part of the package."""
        text = resources.files(__package__).joinpath("schema", f"{name}.json").read_bytes()
        return cls(orjson.loads(text))

    def problems(self, value: object) -> list[str]:
        """Return why a value is not of this kind: up to ten sentences, each with its JSON path."""
        errors = islice(self._validator.iter_errors(value), MAX_PROBLEMS)
        sentences = (sentence for error in errors for sentence in _sentences(error))
        return list(dict.fromkeys(sentences))[:MAX_PROBLEMS]

    def filled(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return a copy with the defaults of absent fields; a field that is null stays null."""
        absent = {
            name: deepcopy(rule["default"])
            for name, rule in self.properties.items()
            if "default" in rule and name not in value
        }
        return {**value, **absent}


def _unique_items(
    _validator: object, wanted: object, items: object, _schema: object
) -> Iterator[ValidationError]:
    """Check in linear time: jsonschema's own check takes quadratic time for mixed types."""
    if wanted and isinstance(items, list) and not is_unique(items):
        yield ValidationError("must not contain duplicate entries")


def _of_few(keyword: str, bound: str) -> Callable[..., Iterator[ValidationError]]:
    """Return jsonschema's check of each entry; it is skipped if there are too many entries."""
    original = Draft202012Validator.VALIDATORS[keyword]

    def check(
        validator: object, rule: object, value: object, schema: Mapping[str, Any]
    ) -> Iterator[ValidationError]:
        most = schema.get(bound)
        if most is None or not isinstance(value, list | dict) or len(value) <= most:
            yield from original(validator, rule, value, schema) or ()

    return check


_Validator: Any = extend(
    Draft202012Validator,
    validators={
        "uniqueItems": _unique_items,
        "items": _of_few("items", "maxItems"),
        "additionalProperties": _of_few("additionalProperties", "maxProperties"),
    },
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: isinstance(value, int) and not isinstance(value, bool)
    ),
)


def _sentences(error: ValidationError) -> list[str]:
    """Return the problems of one place, without repeating a value that may be huge or secret."""
    path = error.json_path[:_LONGEST_QUOTE]
    rule, value = error.validator_value, error.instance
    if error.validator == "required":
        return [f"{path}: required field {name!r} is missing" for name in rule if name not in value]
    if error.validator == "additionalProperties" and rule is False:
        known = error.schema.get("properties", {})
        unknown = (name for name in value if name not in known)
        return [
            f"{path}: unknown field {name[:_LONGEST_QUOTE]!r}"
            for name in islice(unknown, MAX_PROBLEMS)
        ]
    if error.validator in _BOUNDS:
        return [f"{path}: {_out_of_bounds(error)}"]
    sentence = _SENTENCES.get(error.validator)
    return [f"{path}: {sentence(rule, value) if sentence else error.message[:_LONGEST_QUOTE]}"]


def _out_of_bounds(error: ValidationError) -> str:
    """Return a text with both bounds and the given value; of a text only its length."""
    low, high, unit = _BOUNDS[str(error.validator)]
    least, most = error.schema.get(low), error.schema.get(high)
    given = error.instance if not unit else len(error.instance)
    bounds = (
        f"at least {least}"
        if most is None
        else f"at most {most}"
        if least is None
        else f"{least}-{most}"
        if unit
        else f"from {least} to {most}"
    )
    verb, noun = ("have", f" {unit}") if unit else ("be", "")
    return f"must {verb} {bounds}{noun} (got {str(given)[:_LONGEST_NUMBER]})"


_LENGTH = ("minLength", "maxLength", "characters")
_VALUE = ("minimum", "maximum", "")
_BOUNDS: Mapping[str, tuple[str, str, str]] = {
    **dict.fromkeys(_LENGTH[:2], _LENGTH),
    **dict.fromkeys(_VALUE[:2], _VALUE),
    "maxItems": ("minItems", "maxItems", "entries"),
    "maxProperties": ("minProperties", "maxProperties", "entries"),
}
"""Rules with bounds: minimum, maximum, and the unit that they count; "": the value itself."""


def _listed(names: str | list[Any]) -> str:
    if isinstance(names, str):
        return names
    return ", ".join("null" if name is None else str(name) for name in names)


_SENTENCES: Mapping[str, Callable[[Any, Any], str]] = {
    "type": lambda rule, value: f"must be {_listed(rule)}, not {type_name(value)}",
    "enum": lambda rule, _: f"must be one of {_listed(rule)}",
    "not": lambda _, __: "must not contain control characters",
    "pattern": lambda rule, _: f"must match {rule}",
}
