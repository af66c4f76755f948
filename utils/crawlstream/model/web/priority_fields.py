"""Priority rules as a crawl request and a stored profile have them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import lru_cache
from typing import Any

from crawlstream.errors import InvalidRequest, InvalidUrl
from crawlstream.model.request import Refusal
from crawlstream.model.url import host_rule
from crawlstream.model.web.priorities import MOST_CHANGES, STEP, PriorityRule

_EXPRESSIONS = ("match", "text")
_DEFAULTS = {each.name: each.default for each in fields(PriorityRule)}


def priority_rules(written: Sequence[Mapping[str, Any]]) -> tuple[PriorityRule, ...]:
    """Return the rules of objects that fit the schema.

    Raise InvalidRequest with all problems of one kind; each names the rule by its place.
    """
    _refuse_if(Refusal.BAD_REQUEST, _problems(written))
    rules = tuple(rule_of_fields(_plain(rule)) for rule in written)
    expressions = tuple(tuple(getattr(rule, name) for rule in rules) for name in _EXPRESSIONS)
    _refuse_if(Refusal.BAD_REGEX, _bad_expressions(expressions))
    return rules


def rule_fields(rule: PriorityRule) -> Mapping[str, Any]:
    """Return a rule as an object of the fields that differ from their default."""
    values = ((name, getattr(rule, name), default) for name, default in _DEFAULTS.items())
    return {name: value for name, value, default in values if value != default}


def rule_of_fields(values: Mapping[str, Any]) -> PriorityRule:
    """Return the rule of a result of ``rule_fields``; TypeError for other fields."""
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return PriorityRule(**given)


def _problems(written: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield what is wrong apart from the expressions."""
    changes = {rule["add"] for rule in written if rule.get("add") is not None}
    if len(changes) > MOST_CHANGES:
        yield (
            f"$.priorities: has {len(changes)} different values of `add`; use at most"
            f" {MOST_CHANGES}"
        )
    for place, rule in enumerate(written):
        where = f"$.priorities[{place}]"
        if problem := _consequence_problem(rule):
            yield f"{where}{problem}"
        first, last = rule.get("depth") or (0, 0)
        if first > last:
            yield f"{where}.depth: ends before it begins: write [{last}, {first}]"
        for number, host in enumerate(rule.get("hosts") or ()):
            try:
                host_rule(host)
            except InvalidUrl as error:
                yield f"{where}.hosts[{number}]: {error}"


def _consequence_problem(rule: Mapping[str, Any]) -> str:
    """Return what is wrong with ``add`` and ``drop``, with the end of its path; or ""."""
    add, drops = rule.get("add"), bool(rule.get("drop"))
    if add is None:
        return "" if drops else ': has no consequence: give it "add": 200 or "drop": true'
    if drops:
        return ": has both `add` and `drop`: leave out one of them"
    if remainder := add % STEP:
        lower = add - remainder
        return f".add: must be a multiple of {STEP}: use {lower} or {lower + STEP}"
    return ""


def _plain(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rule with hosts and extensions in one spelling, and without nulls."""
    plain = {name: value for name, value in rule.items() if value is not None}
    if "hosts" in plain:
        plain["hosts"] = list(dict.fromkeys(map(host_rule, plain["hosts"])))
    if "types" in plain:
        plain["types"] = [name.lower().removeprefix(".") for name in plain["types"]]
    return plain


@lru_cache(maxsize=256)
def _bad_expressions(expressions: Sequence[Sequence[str | None]]) -> Sequence[str]:
    """Return what is wrong with the expressions of each field; seeds of a crawl repeat them."""
    if not any(map(any, expressions)):
        return ()
    from crawlstream.model.web.linear import (  # noqa: PLC0415  loaded where it is needed
        LINEAR_BYTES,
        linear_problem,
        linear_set,
    )

    problems = [
        f"$.priorities[{place}].{name}: RE2 cannot compile it ({problem[:100]}); it has no"
        " look-around and no references to groups"
        for name, of_field in zip(_EXPRESSIONS, expressions, strict=True)
        for place, each in enumerate(of_field)
        if each and (problem := linear_problem(each))
    ]
    if problems:
        return problems
    return [
        f"$.priorities: the expressions of `{name}` need more than {LINEAR_BYTES // 1024} KiB"
        " together: use fewer or shorter ones"
        for name, of_field in zip(_EXPRESSIONS, expressions, strict=True)
        if any(of_field) and linear_set([each for each in of_field if each]) is None
    ]


def _refuse_if(reason: Refusal, problems: Iterator[str] | Sequence[str]) -> None:
    if listed := list(problems):
        raise InvalidRequest(reason, listed)
