"""Parse the rules in the node, strictly.

::

    default: {hits: 10, window: 60, moderated: true}      # additive; else QUEUE_* apply
    domains:
      example.com: {hits: 30, window: 60, scale: 0.5, concurrency: 2}
    blacklist: [example.org]
    groups:                                               # see ``parse_groups``
      hoster: {hits: 5, window: 1, concurrency: 4, members: [example.com, "*.example.net"]}

A table is a function of the bytes only, so that every process reads the same one: a missing
``blacklist`` is empty, a missing ``domains`` has no rules. Any invalid part makes the whole
document invalid, and its readers keep the last good table. Unknown keys are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from crawlstream.errors import BadTable
from crawlstream.model.rule_field import RuleField
from crawlstream.model.throttle_table import RULE_FIELDS, ThrottleRule, ThrottleTable
from crawlstream.model.url import fold_host
from crawlstream.throttle.parse_groups import groups_of
from crawlstream.zoo.document import Document, kind_of
from crawlstream.zoo.node import Node

_SECTIONS = ("default", "domains", "blacklist")


def node_of(path: str, default: ThrottleRule) -> Node[ThrottleTable]:
    """Return the node with the rules; ``default`` is used if it has no default rule."""
    return Node(
        path=path,
        table_of=lambda document, czxid, mzxid: table_of(
            document, default=default, czxid=czxid, mzxid=mzxid
        ),
        what="throttle rules",
        event="rules",
    )


def table_of(document: Document, *, default: ThrottleRule, czxid: int, mzxid: int) -> ThrottleTable:
    """Return the table in a document; ``default`` is used if it has no default rule.

    Domains may be written in upper case, with a trailing dot or in a non-Latin script; of two
    spellings of a domain, the slower rule applies.
    """
    if not any(section in document for section in _SECTIONS):
        raise BadTable("the node has none of default, domains, blacklist")
    if "default" in document:
        default = _rule("default", document["default"], default)
    rules: dict[str, ThrottleRule] = {}
    for name, value in _mapping(document, "domains").items():
        domain = _domain("domains", name)
        rule = _rule(f"domains: {domain}", value, default)
        rules[domain] = min(rule, rules.get(domain, rule), key=_rate)
    table = ThrottleTable(
        default=default,
        rules=rules,
        blacklist=frozenset(_domain("blacklist", name) for name in _list(document, "blacklist")),
        czxid=czxid,
        mzxid=mzxid,
    )
    return replace(table, groups=groups_of(document, table.site_of))


def _rule(where: str, rule: object, default: ThrottleRule) -> ThrottleRule:
    if not isinstance(rule, dict):
        required = " and ".join(field.name for field in RULE_FIELDS if field.is_required)
        raise BadTable(f"{where} is {kind_of(rule)}, not a mapping with {required}")
    return ThrottleRule(
        **{field.attribute: _value(where, rule, field, default) for field in RULE_FIELDS}
    )


def _value(where: str, rule: Mapping[Any, Any], field: RuleField, default: ThrottleRule) -> Any:
    """Return the value of a field in a rule, or its default."""
    if field.name in rule:
        value = rule[field.name]
        if not field.accepts(value):
            what = kind_of(value)
            raise BadTable(f"{where}: {field.name} is {what}, not {field.wanted}")
        return field.kind(value)
    if field.is_required:
        raise BadTable(f"{where}: {field.name} is missing")
    return field.value_of(default) if field.is_inherited else field.default


def _mapping(document: Document, section: str) -> Mapping[Any, Any]:
    value = document.get(section, {})
    if not isinstance(value, dict):
        raise BadTable(f"{section} is {kind_of(value)}, not a mapping (empty: {{}})")
    return value


def _list(document: Document, section: str) -> list[Any]:
    value = document.get(section, [])
    if not isinstance(value, list):
        raise BadTable(f"{section} is {kind_of(value)}, not a list (empty: [])")
    return value


def _domain(section: str, name: object) -> str:
    domain = fold_host(name) if isinstance(name, str) else ""
    if not domain:
        raise BadTable(f"{section}: {kind_of(name)} is not the name of a domain")
    return domain


def _rate(rule: ThrottleRule) -> float:
    """Return the requests per second."""
    return rule.effective_hits / rule.window_s
