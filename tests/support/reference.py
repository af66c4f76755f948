"""The parts of the documentation that are made from the code, between two marks in their pages.

``UPDATE_DOCS=1 ./crawlstream test -n 0 tests/unit/project/test_docs.py`` writes them again.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_origin

import click
import typer
from prometheus_client.metrics import MetricWrapperBase
from pydantic import SecretStr
from pydantic.fields import FieldInfo

from crawlstream.boot.sections.section import Section
from crawlstream.boot.settings import Settings
from crawlstream.model.throttle_table import RULE_FIELDS
from crawlstream_cli.common.helptext import readable
from crawlstream_cli.verbs import VERBS

DOCS = Path(__file__).parents[2] / "docs"
BEGIN, END = "<!-- made from the code -->", "<!-- end -->"

METRICS = {
    "Every process": "crawlstream.boot.metrics",
    "kafka-monitor, crawler and pipeline": "crawlstream_traces.metrics",
    "crawler": "crawling.metrics",
    "kafka-monitor": "kafka_monitor.metrics",
    "redis-monitor": "redis_monitor.metrics",
    "rest": "rest_service.metrics",
    "pipeline": "pipeline_service.metrics",
}
"""Where the metrics of each process are born."""

_SUFFIXES: Mapping[str | None, tuple[str, ...]] = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
}


def metrics_of(module: str) -> Iterator[MetricWrapperBase]:
    """The metrics that a module makes, in its order."""
    for value in vars(import_module(module)).values():
        if isinstance(value, MetricWrapperBase):
            yield value


def exported(metric: MetricWrapperBase) -> list[str]:
    """The names that Prometheus sees of a metric."""
    return [f"{metric._name}{suffix}" for suffix in _SUFFIXES[metric._type]]


def metrics() -> str:
    """A table a process."""
    parts = []
    for process, module in METRICS.items():
        rows = ["| Metric | Kind | Labels | Meaning |", "|---|---|---|---|"]
        for metric in metrics_of(module):
            name = metric._name + ("_total" if metric._type == "counter" else "")
            labels = ", ".join(f"`{label}`" for label in metric._labelnames)
            rows.append(f"| `{name}` | {metric._type} | {labels} | {metric._documentation} |")
        parts.append(f"## {process}\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def settings_tables() -> str:
    """A table a section of :class:`Settings`."""
    parts = []
    for section in _sections():
        rows = ["| Variable | Value | Default | Meaning |", "|---|---|---|---|"]
        for name, meaning in _described(section).items():
            field = Settings.model_fields[name]
            variables = "<br>".join(f"`{variable}`" for variable in Settings.variables_of(name))
            rows.append(f"| {variables} | {_value(field)} | {_default(field)} | {meaning} |")
        title, _, _ = (section.__doc__ or "").replace("``", "`").partition("\n")
        parts.append(f"## {title.rstrip('.')}\n\n" + "\n".join(rows))
    return "\n\n".join(parts)


def _sections() -> Iterator[type[Section]]:
    """The classes that have settings of their own, in their order."""
    for kind in Settings.__mro__:
        if issubclass(kind, Section) and kind.__annotations__.keys() & Settings.model_fields.keys():
            yield kind


def _described(section: type[Section]) -> Mapping[str, str]:
    """The settings of a section, and what stands below each."""
    told = {}
    (node,) = ast.parse(inspect.getsource(section)).body
    assert isinstance(node, ast.ClassDef)
    for field, after in pairwise(node.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = ast.get_docstring(ast.Module([after], []), clean=True) or ""
            told[field.target.id] = " ".join(text.replace("``", "`").split())
    return told


def _value(field: FieldInfo) -> str:
    kind = field.annotation
    choices = get_args(kind) if get_origin(kind) is not None else ()
    names = [choice for choice in choices if isinstance(choice, str)]
    if names:
        return ", ".join(f"`{name}`" for name in names)
    if get_origin(kind) is tuple:
        return "list, by commas"
    words: Mapping[Any, str] = {
        bool: "`true`, `false`",
        int: "integer",
        float: "number",
        SecretStr: "text",
    }
    plain = next((choice for choice in choices if choice is not type(None)), kind)
    return words.get(plain, "text") + _bounds(field)


def _bounds(field: FieldInfo) -> str:
    bounds = {"ge": "from", "gt": "above", "le": "to"}
    found = [
        f"{word} {getattr(rule, name)}"
        for name, word in bounds.items()
        for rule in field.metadata
        if getattr(rule, name, None) is not None
    ]
    return " " + " ".join(found) if found else ""


def _default(field: FieldInfo) -> str:
    value = field.default
    if value is None or value in ("", ()):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{','.join(value) if isinstance(value, tuple) else value}`"


def rule_fields() -> str:
    """A row a field of a throttle rule."""
    rows = ["| Field | Value | Without it | Meaning |", "|---|---|---|---|"]
    for field in RULE_FIELDS:
        default = "an error" if field.is_required else f"`{json.dumps(field.default)}`"
        if field.is_inherited and not field.is_required:
            default = f"as in `default`, else {default}"
        rows.append(f"| `{field.name}` | {field.wanted} | {default} | {field.meaning} |")
    return "\n".join(rows)


def commands() -> str:
    """A section for each verb of the bootstrap script, as its help has it."""
    return "\n\n".join(_command(f"crawlstream {name}", load(name)) for name in VERBS)


def load(name: str) -> Any:
    """A verb of the bootstrap script as a command."""
    verb = VERBS[name]
    module, _, target = verb.target.partition(":")
    found = getattr(import_module(module), target)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    return readable(typer.main.get_command(found))


def _command(path: str, command: Any, level: int = 2) -> str:
    with click.Context(command, info_name=path) as context:
        usage = " ".join(command.get_usage(context).split()).removeprefix("Usage: ")
        parts = [f"{'#' * level} {path}", f"    ./{usage}", _prose(command.help or "")]
        if rows := list(_parameters(command, context)):
            parts.append("\n".join(["| Option | Meaning |", "|---|---|", *rows]))
        names = command.list_commands(context) if hasattr(command, "list_commands") else ()
        below = [_command(f"{path} {n}", command.get_command(context, n), level + 1) for n in names]
    return "\n\n".join([*parts, *below])


def _prose(text: str) -> str:
    """Paragraphs, and each example as code."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n")]
    return "\n\n".join(re.sub(r"^Example: ", "Example:\n\n    ./", part) for part in paragraphs)


def _parameters(command: Any, context: click.Context) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record and parameter.name != "help":
            option, meaning = (" ".join(text.replace("|", "\\|").split()) for text in record)
            yield f"| `{option}` | {meaning} |"


PAGES: Mapping[str, Callable[[], str]] = {
    "metrics.md": metrics,
    "settings.md": settings_tables,
    "cli.md": commands,
    "politeness.md": rule_fields,
}
"""The pages that have a made part."""


def renewed(page: Path, made: str) -> str:
    """A page with its made part as it should be."""
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{made}\n\n{END}{after}"
