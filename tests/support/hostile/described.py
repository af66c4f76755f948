"""Requests that an OpenAPI description allows, and some that it does not, for property tests."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode

from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from jsonschema import Draft202012Validator

from support.rest import Answer

Schema = Mapping[str, Any]
_LONGEST = 60
"""Characters of generated texts; longer ones are of the tests of limits."""
_JSON = "application/json"
_HEADER = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=_LONGEST)
ANY_JSON: SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=_LONGEST),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4)
    ),
    max_leaves=8,
)
_OTHER_TYPES: SearchStrategy[Any] = st.sampled_from([True, False, "1", 1, 1.5, None, [], {}])


@dataclass(frozen=True, slots=True)
class DescribedRequest:
    """A request to an operation."""

    method: str
    target: str
    """Path and query, encoded."""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None


class Description:
    """An OpenAPI description: its operations, what they take, and what they answer."""

    def __init__(
        self,
        told: Mapping[str, Any],
        known: Mapping[str, Sequence[Any]],
        only: Mapping[str, Sequence[Any]],
    ) -> None:
        """Take values of parameters and fields: ``known`` ones come often, ``only`` these come."""
        self._told = told
        self._known = known
        self._only = only

    def operations(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the method of each operation."""
        for path, operations in self._told["paths"].items():
            for method in operations:
                yield path, method

    def requests(self, path: str, method: str) -> SearchStrategy[DescribedRequest]:
        """Return requests to an operation: three in four have the described types."""
        operation = self._told["paths"][path][method]

        @st.composite
        def made(draw: DrawFn) -> DescribedRequest:
            named: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}}
            for one in operation.get("parameters", ()):
                if one.get("required") or draw(st.booleans()):
                    value = draw(self._parameter(one))
                    if value is not None:
                        named[one["in"]][one["name"]] = _as_text(value)
            target = path.format(**{name: quote(v, safe="") for name, v in named["path"].items()})
            query = urlencode(named["query"])
            headers, body = named["header"], None
            if taken := operation.get("requestBody"):
                headers["Content-Type"], body = draw(self._body(taken["content"]))
            return DescribedRequest(
                method.upper(), f"{target}?{query}" if query else target, headers, body
            )

        return made()

    def problem(
        self, path: str, method: str, request: DescribedRequest, answer: Answer
    ) -> str | None:
        """Return how an answer differs from the description; None: it does not."""
        status, kind, body = answer.status, answer.headers["content-type"], answer.body
        responses = self._told["paths"][path][method]["responses"]
        if status >= 500:
            return f"status {status}: {body[:200]!r}"
        if status < 400 and self._is_wrong(path, method, request):
            return f"status {status} for a body that is not described"
        found = responses.get(str(status)) or (responses["default"] if status >= 400 else None)
        if found is None:
            return f"status {status} is not described"
        media = kind.partition(";")[0]
        if media not in found["content"]:
            return f"status {status}: the type {media!r} is not described"
        if media == _JSON:
            schema = {**found["content"][media]["schema"], "components": self._told["components"]}
            for error in Draft202012Validator(schema).iter_errors(json.loads(body)):
                return f"status {status}: {error.message}"
        return None

    def _is_wrong(self, path: str, method: str, request: DescribedRequest) -> bool:
        """Return whether a JSON body is not as the description says."""
        if request.body is None or request.headers["Content-Type"] != _JSON:
            return False
        taken = self._told["paths"][path][method]["requestBody"]["content"][_JSON]
        schema = {**taken.get("schema", {}), "components": self._told["components"]}
        return not Draft202012Validator(schema).is_valid(json.loads(request.body))

    def _parameter(self, one: Mapping[str, Any]) -> SearchStrategy[Any]:
        if one["in"] == "header":
            return _HEADER
        wanted = self._values(one["schema"], one["name"])
        if one["in"] == "path":
            # An encoded slash is decoded before routes are compared: another route has it.
            return wanted.filter(lambda value: "/" not in str(value))
        other = st.text(max_size=_LONGEST) | st.integers()
        return wanted if one["name"] in self._only else _mostly(wanted, other)

    def _body(self, content: Mapping[str, Any]) -> SearchStrategy[tuple[str, bytes]]:
        of_json = content.get(_JSON, {})
        examples = _examples_of(of_json) + [
            one
            for part in [self._resolved(of_json.get("schema", {}))]
            for one in _examples_of(part)
        ]
        values = self._values(of_json.get("schema", {}), "")
        if examples:
            values |= st.sampled_from(examples) | self._changed(examples)
        right = values.map(lambda value: (_JSON, _dumped(value)))
        others = [
            st.just((media, str(told.get("example", "")).encode()))
            for media, told in content.items()
            if media != _JSON
        ]
        wrong = st.one_of(
            ANY_JSON.map(lambda value: (_JSON, _dumped(value))),
            st.tuples(st.sampled_from([*content, "text/plain"]), st.binary(max_size=_LONGEST)),
            *others,
        )
        return _mostly(right, wrong)

    def _changed(self, examples: Sequence[Any]) -> SearchStrategy[Any]:
        """Return examples with a field that has another value, or is missing."""

        @st.composite
        def made(draw: DrawFn) -> Any:
            value = json.loads(json.dumps(draw(st.sampled_from(examples))))
            if isinstance(value, dict) and value:
                name = draw(st.sampled_from(sorted(value)))
                if draw(st.booleans()):
                    value[name] = draw(_OTHER_TYPES | ANY_JSON)
                else:
                    del value[name]
            return value

        return made()

    def _resolved(self, schema: Schema) -> Schema:
        if ref := schema.get("$ref"):
            found: Schema = self._told["components"]["schemas"][ref.rpartition("/")[2]]
            return found
        return schema

    def _values(self, schema: Schema, name: str) -> SearchStrategy[Any]:
        """Return values of a schema; those that exist for a name come often."""
        if only := self._only.get(name):
            return st.sampled_from(only)
        schema = self._resolved(schema)
        found = self._of_schema(schema)
        if known := [*self._known.get(name, ()), *schema.get("examples", ())]:
            return st.sampled_from(known) | found
        return found

    def _of_schema(self, schema: Schema) -> SearchStrategy[Any]:
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            return st.one_of(*(self._values(part, "") for part in parts))
        if "enum" in schema or "const" in schema:
            return st.sampled_from(schema.get("enum") or [schema["const"]])
        make = _MAKERS.get(schema.get("type", ""))
        if make:
            return make(schema)
        if schema.get("type") == "array":
            least, most = schema.get("minItems", 0), min(schema.get("maxItems", 4), 4)
            items = self._values(schema.get("items", {}), "")
            return st.lists(items, min_size=least, max_size=max(least, most))
        if schema.get("type") == "object":
            return self._objects(schema)
        return ANY_JSON

    def _objects(self, schema: Schema) -> SearchStrategy[Any]:
        fields = {
            name: self._values(one, name) for name, one in schema.get("properties", {}).items()
        }
        required = {name: one for name, one in fields.items() if name in schema.get("required", ())}
        optional = {name: one for name, one in fields.items() if name not in required}
        return st.fixed_dictionaries(required, optional=optional)


def _mostly(right: SearchStrategy[Any], wrong: SearchStrategy[Any]) -> SearchStrategy[Any]:
    return st.integers(0, 3).flatmap(lambda number: right if number else wrong)


def _numbers(make: Callable[..., SearchStrategy[Any]]) -> Callable[[Schema], SearchStrategy[Any]]:
    def made(schema: Schema) -> SearchStrategy[Any]:
        least = schema.get("minimum", schema.get("exclusiveMinimum"))
        return make(least, schema.get("maximum", schema.get("exclusiveMaximum")))

    return made


def _texts(schema: Schema) -> SearchStrategy[str]:
    if pattern := schema.get("pattern"):
        return st.from_regex(str(pattern))
    least = schema.get("minLength", 0)
    most = max(least, min(schema.get("maxLength", _LONGEST), _LONGEST))
    return st.text(min_size=least, max_size=most)


_MAKERS: Mapping[str, Callable[[Schema], SearchStrategy[Any]]] = {
    "null": lambda _: st.none(),
    "boolean": lambda _: st.booleans(),
    "integer": _numbers(st.integers),
    "number": _numbers(st.floats),
    "string": _texts,
}


def _examples_of(part: Mapping[str, Any]) -> list[Any]:
    """Return the examples of a body or of a schema."""
    examples = part.get("examples", [])
    if isinstance(examples, Mapping):
        examples = [one["value"] for one in examples.values()]
    return [*examples, *([part["example"]] if "example" in part else [])]


def _as_text(value: object) -> str:
    return json.dumps(value) if isinstance(value, bool) else str(value)


def _dumped(value: object) -> bytes:
    return json.dumps(value).encode()
