"""The stage ``validate``: items against a JSON Schema, or a model of pydantic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from jsonschema import Draft202012Validator, SchemaError, ValidationError
from pydantic import BaseModel
from pydantic import ValidationError as ModelError

from crawlstream.errors import ConfigError
from crawlstream.wire.compiled import compile_schema
from crawlstream_extract.plain import plain_fields
from pipeline_service.spec.quality.counts import WHOLE, QualityCounts
from pipeline_service.spec.schema import declared, properties
from pipeline_service.spec.stages import RESERVED
from pipeline_service.stages.draft import INVALID, Draft, Filtered, PageRefused
from pipeline_service.stages.function import load_any
from pipeline_service.stages.page import Page

MOST_ERRORS = 10
"""Sentences of one item."""
_LONGEST = 200


class ItemProblem(NamedTuple):
    """Error of an item."""

    field: str
    """``a.b`` for one in an object; empty: the item itself."""
    rule: str
    sentence: str


class Checker(Protocol):
    """A schema, ready to check items."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """As JSON Schema."""

    def check(self, item: dict[str, Any]) -> tuple[dict[str, Any], Sequence[ItemProblem]]:
        """The item as it is to be stored, and what is wrong with it."""


class Validate:
    """Counts the quality of items; marks, drops or refuses those that are not valid."""

    def __init__(self, options: Mapping[str, Any], more: Sequence[str]) -> None:
        """``more`` are fields that are counted besides those of the schema."""
        self._handling: str = options["on_invalid"]
        self._checker: Checker = (
            _Model(options["model"]) if "model" in options else _JsonSchema(options["schema"])
        )
        self.schema = self._checker.schema
        if taken := RESERVED.intersection(properties(self.schema)):
            raise ConfigError(
                f"its schema has {min(taken)!r}, which belongs to each row: rename the field"
            )
        self.declared = tuple(dict.fromkeys((*more, *declared(self.schema))))
        self.quality = QualityCounts()
        """Quality of the items since it was last set."""

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """The valid ones, and the others as ``on_invalid`` says."""
        kept, refused = [], []
        for draft in drafts:
            draft.fields, problems = self._checker.check(draft.fields)
            errors = [(self._counted(field), rule) for field, rule, _ in problems]
            self.quality.count(draft.fields, self.declared, errors)
            sentences = [sentence for _, _, sentence in problems[:MOST_ERRORS]]
            if self._handling == "mark":
                draft.errors = sentences
            if problems and self._handling == "undelivered":
                refused += sentences
            elif not problems or self._handling == "mark":
                kept.append(draft)
        if refused:
            raise PageRefused(INVALID, "validate", refused[:MOST_ERRORS])
        if not kept:
            raise Filtered("validate")
        return kept

    def _counted(self, field: str) -> str:
        """The declared field that an error is counted for; errors of the whole item are ``$``."""
        while field and field not in self.declared:
            field = field.rpartition(".")[0]
        return field or WHOLE


class _JsonSchema:
    def __init__(self, schema: Mapping[str, Any]) -> None:
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            place = "".join(f".{part}" for part in error.absolute_path)
            raise ConfigError(f"invalid JSON Schema: ${place}: {error.message}") from error
        self.schema = schema
        self._validator = Draft202012Validator(
            schema, format_checker=Draft202012Validator.FORMAT_CHECKER
        )
        # It says yes 30 times as fast, and never where the other says no.
        self._fits = compile_schema(schema)

    def check(self, item: dict[str, Any]) -> tuple[dict[str, Any], Sequence[ItemProblem]]:
        if self._fits is not None and self._fits(item):
            return item, ()
        errors = islice(self._validator.iter_errors(item), MOST_ERRORS * 10)
        return item, [problem for error in errors for problem in _problems(error)]


def _problems(error: ValidationError) -> Iterator[ItemProblem]:
    field = ".".join(part for part in error.absolute_path if isinstance(part, str))
    rule = str(error.validator)
    if rule == "required" and isinstance(error.instance, Mapping):
        for name in error.validator_value:
            if name not in error.instance and repr(name) in error.message:
                missing = f"{field}.{name}" if field else name
                yield ItemProblem(missing, rule, f"{missing}: missing")
        return
    text = error.message if len(error.message) <= _LONGEST else f"{error.message[:_LONGEST]}…"
    yield ItemProblem(field, rule, f"{field or WHOLE}: {text}")


class _Model:
    def __init__(self, target: str) -> None:
        model = load_any(target)
        if not isinstance(model, type) or not issubclass(model, BaseModel):
            raise ConfigError(f"{target}: expected a class that inherits pydantic.BaseModel")
        self._model = model
        self.schema = model.model_json_schema()

    def check(self, item: dict[str, Any]) -> tuple[dict[str, Any], Sequence[ItemProblem]]:
        try:
            made = self._model.model_validate(item)
        except ModelError as error:
            told = error.errors(include_url=False, include_context=False, include_input=False)
            return item, [_problem_of(dict(each)) for each in told]
        return {**item, **plain_fields(made.model_dump())}, ()


def _problem_of(told: Mapping[str, Any]) -> ItemProblem:
    field = ".".join(part for part in told["loc"] if isinstance(part, str))
    rule = "required" if told["type"] == "missing" else str(told["type"])
    return ItemProblem(field, rule, f"{field or WHOLE}: {str(told['msg'])[:_LONGEST]}")
