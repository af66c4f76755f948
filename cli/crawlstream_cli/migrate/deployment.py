"""Files that start a project's processes: supervisor, containers, shell scripts, requirements."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from crawlstream.boot.misspelt import instead_of
from crawlstream.boot.variables import setting_names
from crawlstream.wire.schemas import Schema
from crawlstream_cli.migrate.finding import Finding, Remedy
from crawlstream_cli.migrate.known import COMMANDS, OTHER_DEFAULT, RENAMED, SETTINGS
from crawlstream_cli.migrate.settings_files import setting_finding

_VARIABLE = re.compile(
    r"(?:^|[\s,=\"'-])([A-Z][A-Z0-9_]{4,})\s*[=:]\s*(\"[^\"]*\"|'[^']*'|[^\s,]*)"
)
_KINDS = frozenset({"action", "scraper", "stats", "zookeeper"})
"""Requests whose schema comes with the program."""

_PACKAGE = re.compile(r"^(scutils|kafka-python|scrapy|redis|kazoo|ujson|future)\b", re.IGNORECASE)


def deployment_findings(file: str, text: str) -> Iterator[Finding]:
    """Yield findings about each command and each variable, line by line."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("#", ";")):
            continue
        for expression, fate in COMMANDS.items():
            if found := re.search(expression, line):
                yield Finding(file, number, found.group(), *fate)
        for name, value in _VARIABLE.findall(line):
            if _is_known(name):
                yield _variable(file, number, name, value.strip("\"'"))


def _is_known(name: str) -> bool:
    known = name in setting_names() or name in SETTINGS or name in RENAMED
    return known or name in OTHER_DEFAULT or instead_of(name) is not None


def _variable(file: str, line: int, name: str, value: str) -> Finding:
    """A variable is read under its name: there is nothing to set."""
    found = setting_finding(file, line, name, value)
    if found.verdict is Remedy.SET:
        return Finding(file, line, name, Remedy.WORKS, "read under this name")
    return found


def requirements_findings(file: str, text: str) -> Iterator[Finding]:
    """Packages that the checkout of crawlstream brings, in versions of its own."""
    for number, line in enumerate(text.splitlines(), 1):
        if found := _PACKAGE.match(line.strip()):
            advice = "comes with crawlstream in its own version; install yours beside it"
            if found.group().lower() in {"scutils", "future"}:
                advice = "remove it: nothing here needs it"
            yield Finding(file, number, line.strip(), Remedy.CHANGE, advice)


def schema_findings(file: str, text: str) -> Iterator[Finding]:
    """Fields that a project added to the schema of a built-in request."""
    kind = file.rpartition("/")[2].removesuffix("_schema.json")
    try:
        fields: Mapping[str, Any] = dict(json.loads(text)["properties"])
    except (ValueError, KeyError, TypeError, RecursionError):
        yield Finding(file, 0, kind, Remedy.CHANGE, "not a JSON schema with properties")
        return
    if kind not in _KINDS:
        yield Finding(file, 0, kind, Remedy.WORKS, "Schema({…}) of your plugin takes it as it is")
        return
    unknown = sorted(fields.keys() - Schema.bundled(kind).properties.keys())
    for name in unknown:
        advice = "not a field of this request here: send it in attrs"
        yield Finding(file, _line_of(name, text), name, Remedy.CHANGE, advice)
    if not unknown:
        yield Finding(file, 0, kind, Remedy.WORKS, "all fields are known")


def _line_of(name: str, text: str) -> int:
    before, _, _ = text.partition(f'"{name}"')
    return before.count("\n") + 1
