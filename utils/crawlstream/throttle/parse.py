"""The node's rules, strictly read.

::

    default: {hits: 10, window: 60, moderated: true}      # additive; else QUEUE_* apply
    domains:
      example.com: {hits: 30, window: 60, scale: 0.5, concurrency: 2}
    blacklist: [example.org]

A table is a function of the bytes alone, so that every process reads the same one: a missing
``blacklist`` is an empty one, a missing ``domains`` has no rules. Anything doubtful makes the whole
document bad, and whoever reads it keeps the last good table. Keys that are not ours are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import idna

from crawlstream.errors import BadThrottleConfig
from crawlstream.model.throttle import ThrottleRule, ThrottleTable
from crawlstream.throttle.document import Document, kind_of, read_document

MAX_HITS = 1_000_000_000
MAX_WINDOW_S = 366 * 24 * 3600.0
MAX_CONCURRENCY = 100_000
_SECTIONS = ("default", "domains", "blacklist")


def parse_table(data: bytes, *, default: ThrottleRule, czxid: int, mzxid: int) -> ThrottleTable:
    """Read the node's bytes; BadThrottleConfig names the domain and field that is wrong."""
    return table_of(read_document(data), default=default, czxid=czxid, mzxid=mzxid)


def table_of(document: Document, *, default: ThrottleRule, czxid: int, mzxid: int) -> ThrottleTable:
    """The table in a document; ``default`` is used where the document has none.

    Domains may be spelt in upper case, with a trailing dot or in their own script; of two
    spellings of one domain the slower rule applies.
    """
    if not any(section in document for section in _SECTIONS):
        raise BadThrottleConfig("the node has none of default, domains, blacklist")
    if "default" in document:
        default = _rule("default", document["default"], default)
    rules: dict[str, ThrottleRule] = {}
    for name, value in _mapping(document, "domains").items():
        domain = _domain("domains", name)
        rule = _rule(f"domains: {domain}", value, default)
        rules[domain] = min(rule, rules.get(domain, rule), key=_rate)
    return ThrottleTable(
        default=default,
        rules=rules,
        blacklist=frozenset(_domain("blacklist", name) for name in _list(document, "blacklist")),
        czxid=czxid,
        mzxid=mzxid,
    )


def fold(domain: str) -> str:
    """One spelling of a domain: lower case, ASCII, no trailing dot, no brackets."""
    name = domain.strip().strip("[]").removesuffix(".").lower()
    if name.isascii():
        return name
    try:
        return idna.encode(name, uts46=True).decode("ascii")
    except idna.IDNAError:
        return name


def _rule(where: str, value: object, default: ThrottleRule) -> ThrottleRule:
    """``hits`` and ``window`` must be given; ``moderated`` and ``concurrency`` are inherited."""
    if not isinstance(value, dict):
        raise BadThrottleConfig(f"{where} is {kind_of(value)}, not a mapping with hits and window")
    inherited = {"moderated": default.moderated, "concurrency": default.concurrency}
    rule = {"scale": 1.0, **inherited, **value}
    return ThrottleRule(
        hits=_whole(where, rule, "hits", least=0, most=MAX_HITS),
        window_s=_seconds(where, rule, "window"),
        scale=_share(where, rule, "scale"),
        moderated=_truth(where, rule, "moderated"),
        concurrency=_whole(where, rule, "concurrency", least=1, most=MAX_CONCURRENCY),
    )


def _whole(where: str, rule: Mapping[str, Any], field: str, *, least: int, most: int) -> int:
    value = _given(where, rule, field)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise _wrong(where, field, value, f"a whole number from {least} to {most}")
    return value


def _seconds(where: str, rule: Mapping[str, Any], field: str) -> float:
    value = _given(where, rule, field)
    if not _is_number(value) or not 0 < value <= MAX_WINDOW_S:
        raise _wrong(where, field, value, f"a number of seconds up to {MAX_WINDOW_S:.0f}")
    return float(value)


def _share(where: str, rule: Mapping[str, Any], field: str) -> float:
    value = _given(where, rule, field)
    if not _is_number(value) or not 0 <= value <= 1:
        raise _wrong(where, field, value, "a number from 0 to 1")
    return float(value)


def _truth(where: str, rule: Mapping[str, Any], field: str) -> bool:
    value = _given(where, rule, field)
    if not isinstance(value, bool):
        raise _wrong(where, field, value, "true or false")
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _wrong(where: str, field: str, value: object, wanted: str) -> BadThrottleConfig:
    return BadThrottleConfig(f"{where}: {field} is {kind_of(value)}, not {wanted}")


def _given(where: str, rule: Mapping[str, Any], field: str) -> Any:
    if field not in rule:
        raise BadThrottleConfig(f"{where}: {field} is missing")
    return rule[field]


def _mapping(document: Document, section: str) -> Mapping[Any, Any]:
    value = document.get(section, {})
    if not isinstance(value, dict):
        raise BadThrottleConfig(f"{section} is {kind_of(value)}, not a mapping (empty: {{}})")
    return value


def _list(document: Document, section: str) -> list[Any]:
    value = document.get(section, [])
    if not isinstance(value, list):
        raise BadThrottleConfig(f"{section} is {kind_of(value)}, not a list (empty: [])")
    return value


def _domain(section: str, name: object) -> str:
    domain = fold(name) if isinstance(name, str) else ""
    if not domain:
        raise BadThrottleConfig(f"{section}: {kind_of(name)} is not the name of a domain")
    return domain


def _rate(rule: ThrottleRule) -> float:
    """Requests a second."""
    return rule.effective_hits / rule.window_s
