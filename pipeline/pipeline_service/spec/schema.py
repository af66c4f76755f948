"""Fields of an item in its JSON Schema, found without an item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeline_service.spec.quality.counts import MOST_FIELDS

_LEVELS = 5
"""Levels of objects in objects, whose fields are named ``a.b``."""


def properties(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The fields of an item, each with what the schema says of it, references followed."""
    whole = resolved(schema, schema)
    found = whole.get("properties")
    if not isinstance(found, Mapping):
        return {}
    return {name: resolved(rule, schema) for name, rule in found.items()}


def resolved(rule: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A rule whose reference is followed within its schema, and that is not null, if it may be."""
    for _ in range(_LEVELS):
        if not isinstance(rule, Mapping):
            return {}
        if isinstance(reference := rule.get("$ref"), str):
            rule = _found(reference, root)
        elif choices := _choices(rule):
            rule = choices
        else:
            break
    return rule if isinstance(rule, Mapping) else {}


def types(rule: Mapping[str, Any]) -> frozenset[str]:
    """The types that a value may have, null aside; empty: any."""
    told = rule.get("type")
    return frozenset([told] if isinstance(told, str) else told or ()) - {"null"}


def declared(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of fields, ``a.b`` for one in an object: a hundred at most."""
    names = []
    for name in _declared(schema, schema, "", _LEVELS):
        names.append(name)
        if len(names) == MOST_FIELDS:
            break
    return tuple(names)


def required(schema: Mapping[str, Any]) -> frozenset[str]:
    """Names of the fields that each item must have."""
    return frozenset(map(str, resolved(schema, schema).get("required", ())))


def _declared(
    rule: Mapping[str, Any], root: Mapping[str, Any], before: str, levels: int
) -> Iterator[str]:
    found = resolved(rule, root).get("properties")
    if not isinstance(found, Mapping) or not levels:
        return
    for name in found:
        yield f"{before}{name}"
        yield from _declared(resolved(found[name], root), root, f"{before}{name}.", levels - 1)


def _choices(rule: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the one choice besides null, as optional fields of models have it."""
    for word in ("anyOf", "oneOf"):
        choices = rule.get(word)
        if isinstance(choices, list):
            real = [one for one in choices if one != {"type": "null"}]
            return real[0] if len(real) == 1 else None
    return None


def _found(reference: str, root: Mapping[str, Any]) -> Any:
    if not reference.startswith("#/"):
        return {}
    found: Any = root
    for part in reference[2:].split("/"):
        name = part.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, Mapping) else None
    return found
