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
_REFUSED = {
    "description": "Refused; docs/rest.md lists the statuses and codes.",
    "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Failure"}}},
}
_KEYS = {
    "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "password": {"type": "http", "scheme": "basic"},
}
_FRAMEWORKS_OWN = ("HTTPValidationError", "ValidationError")


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
        schemas["Failure"] = _FAILURE
        parts["securitySchemes"] = _KEYS
        told["security"] = [{name: []} for name in _KEYS]
        for path in told["paths"].values():
            for operation in path.values():
                operation["responses"].pop("422", None)
                operation["responses"]["default"] = _REFUSED
        return told


def body(**examples: object) -> dict[str, Any]:
    """Return the OpenAPI extras of a route that takes JSON, with named examples."""
    named = {name: {"value": value} for name, value in examples.items()}
    content = {"application/json": {"schema": {"type": "object"}, "examples": named}}
    return {"requestBody": {"required": True, "content": content}}
