"""A stage as the file of the pipelines describes it: checked, and plain enough for any process."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from crawlstream.errors import ConfigError
from crawlstream.wire import jsontext
from pipeline_service.spec.made import MADE
from pipeline_service.spec.text_stages import (
    RESILIPARSE,
    read_codes,
    read_document,
    read_language,
    read_minhash,
    read_text,
)
from pipeline_service.spec.where import Where

KINDS = (
    *(
        "where",
        "page",
        "text",
        "markdown",
        "document",
        "language",
        "minhash",
        "signature",
        "fields",
    ),
    *("clean", "validate", "python"),
)
RESERVED = frozenset({"id", "n", "_errors", "_extra"})
"""Reserved fields that each row has, and so names that no other field may have."""
LINKS = ("inline", "reference", "none")
_MARKDOWN_CHARS = 1_000_000
_MARKDOWN: Mapping[str, Any] = {
    "main": True,
    "links": "inline",
    "images": False,
    "hidden": False,
    "max_chars": _MARKDOWN_CHARS,
}
"""Options of the stage ``markdown``, and their defaults."""
ON_INVALID = ("mark", "drop", "undelivered")
_FUNCTION = re.compile(r"python:([\w.]+:[\w.]+)\Z")
_TARGET = re.compile(r"[\w.]+:[\w.]+\Z")
_CHEAP = frozenset({"where", "fields"})
_SCHEMA_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class StageSpec:
    """Specification of a ``[[pipeline.NAME.stage]]``."""

    kind: str
    """Kind, an element of KINDS."""
    label: str
    """Name in accounts and metrics: its kind, or the name of its function."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Values of JSON; a schema that was a file is here in full."""

    @property
    def changes_rows(self) -> bool:
        """Return whether what is stored may be something else than the page."""
        if self.kind == "validate":
            return self.options["on_invalid"] == "mark" or "model" in self.options
        return self.kind != "where"

    @property
    def is_cheap(self) -> bool:
        """Return whether it neither parses pages nor runs code of others."""
        return self.kind in _CHEAP and "python" not in self.options

    @property
    def must_be_contained(self) -> bool:
        """Return whether a page may cost it more than a process has: it runs in limits only."""
        return self.kind == "document" or self.options.get("engine") == RESILIPARSE


@dataclass(frozen=True, slots=True)
class ChainPlan:
    """Plan of a chain; plain enough to be sent to another process."""

    stages: Sequence[StageSpec]
    counted: Sequence[str] = ()
    """Fields that are counted even if no schema declares them."""
    folder: str = ""
    """Where modules of the user are looked for first; empty: nowhere else than usual."""


def read_stages(value: Any, where: str, folder: Path) -> Sequence[StageSpec]:
    """The stages of a list of TOML tables; files are relative to ``folder``. ConfigError."""
    if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
        raise ConfigError(f"{where}: expected tables, each [[{where}]] with use = …")
    stages = tuple(_stage(each, f"{where}[{n}]", folder) for n, each in enumerate(value, 1))
    if sum(each.kind == "validate" for each in stages) > 1:
        raise ConfigError(f'{where}: expected one stage with use = "validate" at most')
    _check_sources(stages, where)
    return stages


def _check_sources(stages: Sequence[StageSpec], where: str) -> None:
    """Raise ConfigError if a stage reads a field that no stage before it makes."""
    made: set[str] = set()
    for number, spec in enumerate(stages, 1):
        if spec.kind in ("python", "validate"):
            return
        key = "language" if spec.kind == "where" else "of"
        read = key if spec.kind == "where" else spec.options.get("of")
        if spec.options.get(key) and read not in made:
            told = f"they make {', '.join(sorted(made))}" if made else "there is none"
            raise ConfigError(
                f"{where}[{number}].{key}: no stage before it makes the field {read!r}: {told}"
            )
        made |= {*MADE.get(spec.kind, {}), *spec.options.get("rename", {}).values()}


def _stage(table: Mapping[str, Any], where: str, folder: Path) -> StageSpec:
    options = {key: table[key] for key in table if key != "use"}
    use = table.get("use")
    if isinstance(use, str) and (found := _FUNCTION.match(use)):
        _known(options, (), where)
        return StageSpec("python", found[1].rpartition(":")[2], {"call": found[1]})
    if use not in KINDS or use == "python":
        names = ", ".join(KINDS[:-1])
        raise ConfigError(f'{where}.use: expected one of {names}, or "python:MODULE:FUNCTION"')
    return StageSpec(use, use, _OPTIONS[use](options, where, folder))


def _known(options: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    for key in options:
        if key not in names:
            told = f"known: {', '.join(names)}" if names else "it takes none"
            raise ConfigError(f"{where}: unknown key {key!r}; {told}")


def _where(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    if not options:
        raise ConfigError(f'{where}: expected what a page must be, such as status = ["200"]')
    call = options.get("python", "a:b")
    if not isinstance(call, str) or not _TARGET.match(call):
        raise ConfigError(f'{where}.python: expected "MODULE:FUNCTION"')
    if "language" in options:
        read_codes(options["language"], f"{where}.language")
    Where.read({key: options[key] for key in options if key not in ("python", "language")}, where)
    return options


def _none(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    _known(options, (), where)
    return {}


def _markdown(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    _known(options, tuple(_MARKDOWN), where)
    made = {**_MARKDOWN, **options}
    for name in ("main", "images", "hidden"):
        _flag(made, name, where)
    if made["links"] not in LINKS:
        raise ConfigError(f"{where}.links: expected one of {', '.join(LINKS)}")
    most = made["max_chars"]
    if isinstance(most, bool) or not isinstance(most, int) or not 1000 <= most <= _MARKDOWN_CHARS:
        raise ConfigError(f"{where}.max_chars: expected a number from 1000 to {_MARKDOWN_CHARS}")
    return made


def _signature(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    _known(options, ("simhash", "mask_digits"), where)
    for name in ("simhash", "mask_digits"):
        _flag(options, name, where)
    return {"simhash": False, "mask_digits": False} | options


def _flag(options: Mapping[str, Any], name: str, where: str) -> None:
    if not isinstance(options.get(name, False), bool):
        raise ConfigError(f"{where}.{name}: expected true or false")


def _fields(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    _known(options, ("keep", "drop", "rename"), where)
    if not options:
        raise ConfigError(f'{where}: expected keep, drop or rename, such as drop = ["body"]')
    for key in ("keep", "drop"):
        names = options.get(key, [])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ConfigError(f"{where}.{key}: expected a list of names")
    renamed = options.get("rename", {})
    if not isinstance(renamed, dict) or not all(isinstance(v, str) for v in renamed.values()):
        raise ConfigError(f'{where}.rename: expected a table, such as {{title = "headline"}}')
    _check_names([*renamed, *renamed.values(), *options.get("drop", [])], where)
    if len(set(renamed.values())) < len(renamed):
        raise ConfigError(f"{where}.rename: expected a different name for each field")
    return options


def _check_names(names: Sequence[str], where: str) -> None:
    for name in names:
        if name in RESERVED:
            raise ConfigError(f"{where}: {name!r} belongs to each row: it stays what it is")


def _validate(options: dict[str, Any], where: str, folder: Path) -> Mapping[str, Any]:
    _known(options, ("schema", "on_invalid"), where)
    if (handling := options.get("on_invalid", "mark")) not in ON_INVALID:
        raise ConfigError(f"{where}.on_invalid: expected one of {', '.join(ON_INVALID)}")
    schema = options.get("schema")
    if not isinstance(schema, str) or not schema:
        raise ConfigError(
            f'{where}.schema: expected the path of a JSON Schema, or "pydantic:MODULE:CLASS"'
        )
    if schema.startswith("pydantic:"):
        if not _TARGET.match(schema.removeprefix("pydantic:")):
            raise ConfigError(f'{where}.schema: expected "pydantic:MODULE:CLASS"')
        return {"model": schema.removeprefix("pydantic:"), "on_invalid": handling}
    return {"schema": _json_schema(folder / schema, where), "on_invalid": handling}


def _json_schema(file: Path, where: str) -> Mapping[str, Any]:
    try:
        raw = file.read_bytes()
        schema: Any = jsontext.loads(raw) if len(raw) <= _SCHEMA_BYTES else None
    except OSError as error:
        raise ConfigError(f"{where}.schema: {file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{where}.schema: {file} is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise ConfigError(f"{where}.schema: {file}: expected a JSON object of 1 MiB at most")
    return schema


_OPTIONS: Mapping[str, Callable[[dict[str, Any], str, Path], Mapping[str, Any]]] = {
    "where": _where,
    "page": _none,
    "text": read_text,
    "markdown": _markdown,
    "document": read_document,
    "language": read_language,
    "minhash": read_minhash,
    "signature": _signature,
    "fields": _fields,
    "clean": _none,
    "validate": _validate,
}
