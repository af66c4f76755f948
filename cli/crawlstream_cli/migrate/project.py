"""A project as a folder of files: each is read by its kind, and none is run."""

from __future__ import annotations

import ast
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from crawlstream.errors import ConfigError
from crawlstream_cli.migrate.code import code_findings, is_of_scrapy_cluster
from crawlstream_cli.migrate.deployment import (
    deployment_findings,
    requirements_findings,
    schema_findings,
)
from crawlstream_cli.migrate.finding import TO_DO, Finding, Remedy
from crawlstream_cli.migrate.known import OWN_FILES
from crawlstream_cli.migrate.settings_files import settings_findings

MAX_FILE_BYTES = 1 << 20
MAX_FILES = 10_000
_SKIPPED = frozenset({"__pycache__", "env", "node_modules", "scutils", "tests", "venv"})
"""Folders to skip; folders whose names begin with a dot are skipped, too."""
_DEPLOYED = frozenset({".cfg", ".conf", ".env", ".ini", ".service", ".sh", ".yaml", ".yml"})


@dataclass(frozen=True, slots=True)
class ProjectReport:
    """Findings about a project."""

    files: int
    """How many were read."""
    findings: Sequence[Finding]
    """By file and line."""

    @property
    def to_do(self) -> int:
        """Return how many lines have to be changed or moved."""
        return sum(finding.verdict in TO_DO for finding in self.findings)

    @property
    def settings(self) -> Mapping[str, str]:
        """The variables that replace the project's settings; of several values the first."""
        pairs = [finding.setting for finding in self.findings if finding.setting]
        return dict(sorted(dict(reversed(pairs)).items()))


def check_project(folder: Path) -> ProjectReport:
    """Read every file of a project; ConfigError if there is nothing to read."""
    if not folder.is_dir():
        raise ConfigError(f"{folder} is not a directory: name the directory of the project")
    findings: list[Finding] = []
    files = 0
    for path in _files(folder):
        files += 1
        findings += _findings(path, path.relative_to(folder).as_posix())
    if not findings:
        raise ConfigError(
            f"{folder} contains no settings, spiders or plugins of Scrapy Cluster: name the"
            " directory that has crawler, kafka-monitor or redis-monitor in it"
        )
    settled = list(_settled(findings))
    return ProjectReport(files, sorted({*settled, *_conflicts(settled)}, key=_place))


def _settled(findings: Sequence[Finding]) -> Iterator[Finding]:
    """Yield the findings; lines of settings.py that localsettings.py overrides need no change."""
    said = {(finding.file, finding.name): finding.line for finding in findings if finding.line}
    anywhere = {name for _, name in said}
    for one in findings:
        local = one.file.removesuffix("settings.py") + "localsettings.py"
        by = said.get((local, one.name)) if PurePath(one.file).name == "settings.py" else None
        if by and one.verdict in TO_DO:
            told = f"localsettings.py:{by} says otherwise"
            yield Finding(one.file, one.line, one.name, Remedy.UNUSED, told)
        elif one.line or one.name not in anywhere:
            yield one


def _place(finding: Finding) -> tuple[str, int, str, str]:
    return finding.file, finding.line, finding.name, finding.advice


def _files(folder: Path) -> Iterator[Path]:
    """The files of a project that have a reader, in order; symbolic links are not followed."""
    count = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED and not f.startswith("."))
        for name in sorted(names):
            path = Path(place, name)
            if _kind(path) and path.is_file() and not path.is_symlink():
                count += 1
                if count > MAX_FILES:
                    raise ConfigError(
                        f"{folder} has more than {MAX_FILES} files to read: name the directory of"
                        " one project"
                    )
                yield path


def _kind(path: Path) -> str:
    """Return how a file is read: python, schema, requirements, deployed, or "" for not at all."""
    name = path.name.lower()
    if path.suffix == ".py":
        return "python"
    if name.endswith("_schema.json"):
        return "schema"
    if "requirements" in name and path.suffix == ".txt":
        return "requirements"
    is_deployed = path.suffix in _DEPLOYED or name in {".env", "makefile", "procfile", "crontab"}
    return "deployed" if is_deployed or name.startswith("dockerfile") else ""


def _findings(path: Path, file: str) -> Iterator[Finding]:
    if path.stat().st_size > MAX_FILE_BYTES:
        yield Finding(file, 0, path.name, Remedy.CHANGE, "too large to read: check it by hand")
        return
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        yield Finding(file, 0, path.name, Remedy.CHANGE, f"cannot be read: {error.strerror}")
        return
    match _kind(path):
        case "python":
            yield from _python(path, file, text)
        case "schema":
            yield from schema_findings(file, text)
        case "requirements":
            yield from requirements_findings(file, text)
        case _:
            yield from deployment_findings(file, text)


def _python(path: Path, file: str, text: str) -> Iterator[Finding]:
    if path.name in OWN_FILES:
        advice = "part of Scrapy Cluster, and replaced: what you changed in it is not read"
        yield Finding(file, 0, path.name, Remedy.UNUSED, advice)
        return
    try:
        with warnings.catch_warnings(action="ignore"):  # Strings may have odd escapes.
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None) or 0
        advice = f"not Python 3: {getattr(error, 'msg', error)}; correct it, then check again"
        yield Finding(file, line, path.name, Remedy.CHANGE, advice)
        return
    if is_of_scrapy_cluster(file, tree):
        yield Finding(file, 0, path.name, Remedy.UNUSED, "part of Scrapy Cluster, and replaced")
        return
    if "settings" in path.name:
        yield from settings_findings(file, tree)
    else:
        yield from code_findings(file, tree)


def _conflicts(findings: Sequence[Finding]) -> Iterator[Finding]:
    """A variable that two components give different values: it has one for all processes."""
    first: dict[str, Finding] = {}
    settled = (finding for finding in findings if finding.setting)
    for finding in settled:
        assert finding.setting is not None
        name, value = finding.setting
        other = first.setdefault(name, finding)
        assert other.setting is not None
        if other.setting[1] != value:
            yield Finding(
                finding.file,
                finding.line,
                finding.name,
                Remedy.CHANGE,
                f"differs from {other.file}:{other.line}: processes that need different values"
                " are started with environments of their own",
            )
