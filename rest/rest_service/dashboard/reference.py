"""The reference of the API for people, made from its description."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from fastapi import APIRouter, FastAPI, Request, Response

from crawlstream.wire import jsontext
from rest_service.dashboard.render import SCREENS, render
from rest_service.service import TheClient

DESCRIPTION = "/v2/openapi.json"
_REF = "$ref"
_BOUNDS = {
    "minimum": "at least",
    "exclusiveMinimum": "more than",
    "maximum": "at most",
    "minLength": "characters: at least",
    "maxLength": "characters: at most",
    "minItems": "items: at least",
    "maxItems": "items: at most",
}

WAYS: Mapping[str, str] = {
    "/openapi.json": DESCRIPTION,
    **dict.fromkeys(("/redoc", "/swagger", "/v2", "/v2/docs"), "/docs"),
    **dict.fromkeys(("/dashboard", "/ui"), "/"),
    **{path.removeprefix("/ui"): path for path, _ in SCREENS if path.startswith("/ui/")},
}
"""Redirects for addresses that users often try and that have no page of their own."""

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """A part of a request: in its path, query, headers or body."""

    name: str
    place: str
    kind: str
    is_required: bool
    notes: str


@dataclass(frozen=True, slots=True)
class Operation:
    """A method of a path."""

    name: str
    method: str
    path: str
    summary: str
    about: str
    arguments: Sequence[Argument]
    examples: Sequence[tuple[str, str]]
    """Examples of bodies: media type and text."""


@router.get("/docs")
async def reference(request: Request, client: TheClient) -> Response:
    """Show every operation with its arguments and examples, on one page, without scripts."""
    described = cast(FastAPI, request.app).openapi()
    return render(
        "reference.html",
        client=client,
        about=described["info"]["description"],
        version=described["info"]["version"],
        description=DESCRIPTION,
        sections=sections(described),
    )


def sections(described: Mapping[str, Any]) -> Mapping[str, Sequence[Operation]]:
    """Return all operations of an OpenAPI description, by their first tag, in its order."""
    found: dict[str, list[Operation]] = {}
    for path, operations in described["paths"].items():
        for method, told in operations.items():
            tag = next(iter(told.get("tags", ())), "other")
            found.setdefault(tag, []).append(_operation(described, path, method, told))
    return found


def _operation(
    described: Mapping[str, Any], path: str, method: str, told: Mapping[str, Any]
) -> Operation:
    bodies = told.get("requestBody", {}).get("content", {})
    return Operation(
        name=f"{method}{path}".replace("/", "-").replace("{", "").replace("}", ""),
        method=method.upper(),
        path=path,
        summary=told.get("summary", ""),
        about=told.get("description", ""),
        arguments=[*_parameters(described, told), *_fields(described, bodies)],
        examples=[pair for kind, body in bodies.items() for pair in _examples(kind, body)],
    )


def _parameters(described: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Argument]:
    for one in told.get("parameters", ()):
        schema = _resolved(described, one["schema"])
        about = one.get("description") or schema.get("description", "")
        is_required = one.get("required", False)
        yield _argument(one["name"], one["in"], schema, is_required=is_required, about=about)


def _fields(described: Mapping[str, Any], bodies: Mapping[str, Any]) -> Iterator[Argument]:
    """Yield the fields of a JSON body whose schema names them."""
    schema = _resolved(described, bodies.get("application/json", {}).get("schema", {}))
    for name, told in schema.get("properties", {}).items():
        field = _resolved(described, told)
        is_required = name in schema.get("required", ())
        about = field.get("description", "")
        yield _argument(name, "body", field, is_required=is_required, about=about)


def _argument(
    name: str, place: str, schema: Mapping[str, Any], *, is_required: bool, about: str
) -> Argument:
    choices = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    known = [text.strip() for text in (about.replace("``", ""),) if text.strip()]
    if choices:
        known.append(f"One of: {', '.join(map(str, choices))}.")
    known += [f"{words} {schema[bound]:,}." for bound, words in _BOUNDS.items() if bound in schema]
    if schema.get("default") is not None:
        known.append(f"Default: {_text(schema['default'])}.")
    return Argument(name, place, _kind(schema), is_required, " ".join(known))


def _resolved(described: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema without its references, and without the null that makes a field optional."""
    if _REF in schema:
        name = schema[_REF].rpartition("/")[2]
        return _resolved(described, described["components"]["schemas"][name])
    resolved = dict(schema)
    choices = [one for one in resolved.get("anyOf", ()) if one.get("type") != "null"]
    if len(choices) == 1:
        resolved.pop("anyOf")
        resolved = _resolved(described, choices[0]) | resolved
    return resolved


def _kind(schema: Mapping[str, Any]) -> str:
    kinds = [str(one.get("type", "any")) for one in schema.get("anyOf", (schema,))]
    return " or ".join(kind for kind in kinds if kind != "null") or "null"


def _examples(kind: str, body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "example" in body:
        yield kind, _text(body["example"])
    for named in body.get("examples", {}).values():
        yield kind, _text(named["value"])


def _text(value: object) -> str:
    return value if isinstance(value, str) else jsontext.dumps(value).decode()
