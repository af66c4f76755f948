"""Settings of a project: what each assignment of a settings module becomes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

from pydantic import SecretStr

from crawlstream.boot.misspelt import instead_of
from crawlstream.boot.settings import Settings
from crawlstream_cli.migrate.finding import UNTOLD, Finding, Remedy
from crawlstream_cli.migrate.known import (
    BUILT_IN,
    CLASSES,
    COMPONENTS,
    OTHER_DEFAULT,
    RENAMED,
    SETTINGS,
)

_MONITORS = frozenset({"kafka-monitor", "redis-monitor", "rest"})

_DEFAULT = "this is the default"
_UNKNOWN = object()
"""Value of an expression that is known only at run time."""


def settings_findings(file: str, tree: ast.Module) -> Iterator[Finding]:
    """Yield findings about each setting of a module, in any component."""
    is_crawlers = not _MONITORS & set(file.split("/"))
    names = set()
    for name, node, line in _assignments(tree):
        names.add(name)
        if name in COMPONENTS:
            yield from _components(file, name, node)
        else:
            yield setting_finding(file, line, name, _value(node), is_crawlers=is_crawlers)
    yield from _added_components(file, tree)
    if is_crawlers and names & {"BOT_NAME", "SPIDER_MODULES"} and "ROBOTSTXT_OBEY" not in names:
        yield Finding(
            file,
            0,
            "ROBOTSTXT_OBEY",
            Remedy.CHANGE,
            "robots.txt is obeyed by default here; ROBOTSTXT_OBEY=false is as before",
        )


def setting_finding(
    file: str, line: int, name: str, value: object, *, is_crawlers: bool = True
) -> Finding:
    """Return the finding about a setting with this value; ``_UNKNOWN`` and None are allowed."""
    if name in OTHER_DEFAULT:
        fate = (Remedy.WORKS, _DEFAULT) if value is False else (Remedy.CHANGE, OTHER_DEFAULT[name])
        return Finding(file, line, name, *fate)
    here = RENAMED.get(name, name)
    field = _fields().get(here)
    if field is not None:
        return _known(Finding(file, line, name, Remedy.WORKS, ""), here, field, value)
    if known := SETTINGS.get(name):
        rule = rule_of_delay(value) if name == "DOWNLOAD_DELAY" else ""
        return Finding(file, line, name, known.verdict, rule or known.advice)
    if instead := instead_of(name):
        return Finding(file, line, name, Remedy.UNUSED, instead)
    if is_crawlers:
        advice = "a setting of Scrapy or of your own: it stays in your project's settings"
        return Finding(file, line, name, Remedy.WORKS, advice)
    advice = "not a setting of crawlstream; a plugin reads its own from the environment"
    return Finding(file, line, name, Remedy.CHANGE, advice)


def rule_of_delay(value: object) -> str:
    """Return advice with the rule that is a DOWNLOAD_DELAY; empty if its seconds are not known."""
    if not isinstance(value, int | float) or value <= 0:
        return ""
    window, hits = Fraction(value).limit_denominator(100).as_integer_ratio()
    return (
        "a rate limit holds for the whole cluster: `crawlstream throttle set default --hits"
        f" {hits} --window {window}` is this delay"
    )


def _known(finding: Finding, here: str, field: str, value: object) -> Finding:
    """A setting that a variable stands for: to be set, unless it is the default anyway."""
    told = finding.file, finding.line, finding.name
    default = _text(Settings.model_fields[field].default)
    is_renamed = here != finding.name
    if value is None or _text(value) == default:
        advice = f"{_DEFAULT} of {here}" if is_renamed else _DEFAULT
        return Finding(*told, Remedy.WORKS, advice)
    text = UNTOLD if value is _UNKNOWN or _is_secret(field) else _text(value)
    advice = f"{here}={text} in the environment or .env"
    if here.startswith("QUEUE_"):
        advice += "; read only when the rules' node is created, later `crawlstream throttle set`"
    verdict = Remedy.RENAME if is_renamed else Remedy.SET
    return Finding(*told, verdict, advice, (here, text))


def _fields() -> dict[str, str]:
    """The field of each variable."""
    return {name: field for field in Settings.model_fields for name in Settings.variables_of(field)}


def _is_secret(field: str) -> bool:
    return "SecretStr" in str(Settings.model_fields[field].annotation)


def _text(value: Any) -> str:
    """A value as a variable has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return "" if value is None else str(value)


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr, int]]:
    """Upper-case names that a module is given a value for, also below ``if`` and ``try``."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=ast.expr() as value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                targets = [target]
            case _:
                continue
        for each in targets:
            if isinstance(each, ast.Name) and each.id.isupper() and len(each.id) > 2:
                yield each.id, value, node.lineno


def _value(node: ast.expr) -> object:
    """The literal, or the default of a look into the environment."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in {
        "bool",
        "float",
        "int",
        "os.environ.get",
        "os.getenv",
        "str",
    }:
        return _value(node.args[-1]) if node.args else None
    try:
        return ast.literal_eval(node)
    except ValueError:
        return _UNKNOWN


def _components(file: str, name: str, node: ast.expr) -> Iterator[Finding]:
    """A finding for each class of a mapping from classes to ranks."""
    if not isinstance(node, ast.Dict):
        advice = "not a plain mapping: check its classes by hand"
        yield Finding(file, node.lineno, name, Remedy.CHANGE, advice)
        return
    for key, rank in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            yield _component(Finding(file, key.lineno, key.value, Remedy.WORKS, ""), name, rank)


def _added_components(file: str, tree: ast.Module) -> Iterator[Finding]:
    """Yield findings about ``NAME[class] = rank``, ``NAME.update({…})`` and ``NAME |= {…}``."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(name), slice=ast.Constant(str()) as key)],
                value=rank,
            ) if name in COMPONENTS:
                yield from _components(file, name, ast.Dict([key], [rank]))
            case ast.Call(func=ast.Attribute(ast.Name(name), attr="update"), args=[value]) if (
                name in COMPONENTS
            ):
                yield from _components(file, name, value)
            case ast.AugAssign(target=ast.Name(name), value=value) if name in COMPONENTS:
                yield from _components(file, name, value)
            case _:
                pass


def _component(finding: Finding, setting: str, rank: ast.expr) -> Finding:
    told = finding.file, finding.line, finding.name
    if setting == "PLUGINS" and finding.name.rpartition(".")[2] in BUILT_IN:
        if isinstance(rank, ast.Constant) and rank.value is None:
            advice = "it is built in and cannot be switched off"
            return Finding(*told, Remedy.CHANGE, advice)
        return Finding(*told, Remedy.UNUSED, "it is built in")
    if setting == "PLUGINS":
        return Finding(*told, Remedy.CHANGE, "name it as an entry point (docs/plugins.md)")
    package, _, own_name = finding.name.rpartition(".")
    if package.startswith("scrapy.") or own_name in CLASSES:
        return Finding(*told, Remedy.UNUSED, "the cluster brings its own, or switches it off")
    if package.startswith("crawling"):
        advice = (
            "your own: move it to a package of another name (`crawling` is crawlstream's), and name"
            f" it in the {setting} of your project"
        )
        return Finding(*told, Remedy.CHANGE, advice)
    advice = 'it stays; the settings need ADDONS = {"crawling.addon.ClusterAddon": 0}'
    return Finding(*told, Remedy.WORKS, advice)
