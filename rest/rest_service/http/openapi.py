"""The description for programs (OpenAPI), with parts that all routes share."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI

_ABOUT = (
    "Every JSON response except that of `GET /` is an envelope: on success `data` contains the"
    " result and `error` is null; on failure `data` is null and `error` contains the reason. An"
    " API key may be limited to applications: it can only feed, read and control their crawls;"
    " all other requests are refused (403, `forbidden_appid`). Keys below the role `operate` see"
    " no secrets."
)
_FAILURE = {
    "type": "object",
    "required": ["status", "data", "error"],
    "properties": {
        "status": {"const": "FAILURE"},
        "data": {"type": "null"},
        "error": {
            "type": "object",
            "required": ["message"],
            "properties": {
                "message": {"type": "string", "description": "For people."},
                "code": {"type": "string", "description": "For programs."},
                "cause": {"type": "string", "description": "More detail."},
                "errors": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "List of problems, each with its JSON path.",
                },
            },
        },
    },
    "example": {
        "status": "FAILURE",
        "data": None,
        "error": {"message": "Too many requests.", "code": "too_many_requests"},
    },
}
_SUCCESS = {
    "type": "object",
    "required": ["status", "data", "error"],
    "properties": {"status": {"const": "SUCCESS"}, "data": {}, "error": {"type": "null"}},
    "additionalProperties": False,
}
_ENVELOPE = {"application/json": {"schema": {"$ref": "#/components/schemas/Success"}}}
_REFUSED = {
    "description": "Refused; docs/rest.md lists the statuses and codes.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
}
_TRACEPARENT = {
    "traceparent": {
        "description": "The span of the page in the W3C form, if the cluster has traces, and the"
        " page is sampled: by their share, or by the `traceparent` of the request.",
        "schema": {"type": "string"},
        "example": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    }
}
_KEYS = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "password": {"type": "http", "scheme": "basic"},
}
_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError")
_WITHOUT_ENVELOPE = "/"
_ANYTHING: dict[str, Any] = {"application/json": {"schema": {}}}
"""Content that FastAPI describes for a route whose handler returns a response."""

Responses = dict[int | str, dict[str, Any]]


class DocumentedAPI(FastAPI):
    """An application whose description includes its errors and its keys."""

    def openapi(self) -> dict[str, Any]:
        """Return the description; it is made once."""
        if self.openapi_schema is not None:
            return self.openapi_schema
        told = super().openapi()
        told["info"]["description"] = _ABOUT
        parts = told.setdefault("components", {})
        schemas = parts.setdefault("schemas", {})
        for name in _FRAMEWORKS_OWN:
            schemas.pop(name, None)
        schemas |= {"Failure": _FAILURE, "Success": _SUCCESS}
        parts["securitySchemes"] = _KEYS
        told["security"] = [{name: []} for name in _KEYS]
        for path, operations in told["paths"].items():
            for operation in operations.values():
                responses = operation["responses"]
                responses.pop("422", None)
                for each in responses.values():
                    if path != _WITHOUT_ENVELOPE and each.get("content") == _ANYTHING:
                        each["content"] = _ENVELOPE
                responses["default"] = _REFUSED
        return told


def later(description: str) -> Responses:
    """Return the OpenAPI extras of a route that may answer 202, in the envelope."""
    return {202: {"description": description, "content": _ENVELOPE}}


def polled() -> Responses:
    """Return the OpenAPI extras of a route that waits for a reply of the cluster."""
    return later("The reply has not come yet: `POST /poll` returns it by its `poll_id`.")


def files(*media_types: str) -> Responses:
    """Return the OpenAPI extras of a route whose answer is not JSON."""
    content = {name: {"schema": {"type": "string"}} for name in media_types}
    return {200: {"description": "Successful Response", "content": content}}


def also_events(*, later_description: str = "") -> Responses:
    """Return the OpenAPI extras of a route that answers in the envelope, or by events."""
    events = {"text/event-stream": {"schema": {"type": "string"}}}
    told = {"description": "Successful Response", "content": {**_ENVELOPE, **events}}
    return {200: told, **(later(later_description) if later_description else {})}


def also_lines(late: str) -> Responses:
    """Return the OpenAPI extras of a route that answers in the envelope or by lines, or later."""
    lines = {"application/x-ndjson": {"schema": {"type": "string"}}}
    told = {"description": "Successful Response", "content": {**_ENVELOPE, **lines}}
    return {200: told, **later(late)}


def traced(responses: Responses) -> Responses:
    """Return OpenAPI extras of a route whose answer with a page names the page's span."""
    told = responses.get(200, {"description": "Successful Response", "content": _ENVELOPE})
    return {**responses, 200: {**told, "headers": _TRACEPARENT}}


def body(**examples: object) -> dict[str, Any]:
    """Return the OpenAPI extras of a route that takes JSON, with named examples."""
    named = {name: {"value": value} for name, value in examples.items()}
    content = {"application/json": {"schema": {"type": "object"}, "examples": named}}
    return {"requestBody": {"required": True, "content": content}}
