"""Which test files a change reaches, by what they import: for ``crawlstream test --changed``.

A test reaches a module that it, a fixture above it or a helper of the tests imports, directly or
not; and one that it names in a string, as those do that start a process (``"kafka_monitor"``).
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path

import grimp

from crawlstream.errors import ConfigError

PACKAGES = {
    "utils": "crawlstream",
    "frontier": "crawlstream_frontier",
    "kafka-monitor": "kafka_monitor",
    "redis-monitor": "redis_monitor",
    "crawler": "crawling",
    "rest": "rest_service",
    "pipeline": "pipeline_service",
    "cli": "crawlstream_cli",
    "chaos": "crawlstream_chaos",
}
"""The package of each top-level folder."""
_LUA = "crawlstream_frontier.scripts"
"""The module that loads the frontier's Lua."""
_OTHER = "tests/unit/project"
"""Tests of files that are not modules: documentation, images, charts, the ``crawlstream``
script."""


def reached_tests(checkout: Path, since: str) -> Sequence[str]:
    """Return the test files that a change since a commit reaches, those that run quickly first.

    Paths are relative to the checkout. ConfigError where git does not know the commit.
    """
    files = _changed_files(checkout, since)
    graph = grimp.build_graph(*PACKAGES.values())
    modules = {module for each in files for module in _modules_of(each, graph.modules)}
    reached = modules.union(*(graph.find_downstream_modules(each) for each in modules))
    tests = _Tests(checkout)
    found = tests.reaching(reached | {each for each in files if each.startswith("tests/")})
    if any(not each.startswith(("tests/", *(f"{top}/" for top in PACKAGES))) for each in files):
        found.add(_OTHER)
    return sorted(found, key=_cheap_first)


def _cheap_first(path: str) -> tuple[bool, bool, str]:
    return (not path.startswith("tests/unit"), not path.startswith("tests/contract"), path)


def _changed_files(checkout: Path, since: str) -> AbstractSet[str]:
    tracked = _git(checkout, "diff", "--name-only", "--no-renames", since, "--")
    return {*tracked, *_git(checkout, "ls-files", "--others", "--exclude-standard")}


def _git(checkout: Path, *arguments: str) -> Sequence[str]:
    done = subprocess.run(
        ("git", *arguments), cwd=checkout, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise ConfigError(f"git cannot say what has changed: {done.stderr.strip()}")
    return done.stdout.splitlines()


def _modules_of(file: str, modules: Collection[str]) -> Iterator[str]:
    """Yield the module of a file of the product; of a data file those in the nearest folder."""
    top, _, rest = file.partition("/")
    if top not in PACKAGES:
        return
    if file.endswith(".lua"):
        yield _LUA
        return
    path = Path(rest)
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    if path.suffix == ".py":
        if name in modules:
            yield name
        return
    folder = ".".join(path.parent.parts)
    yield from (each for each in modules if each.rpartition(".")[0] == folder)


class _Tests:
    """The files below ``tests/`` and what each of them names."""

    def __init__(self, checkout: Path) -> None:
        self._modules: dict[str, str] = {}
        """A file by the name that other tests import it by."""
        self._names: dict[str, AbstractSet[str]] = {}
        for path in sorted((checkout / "tests").rglob("*.py")):
            file = str(path.relative_to(checkout))
            module = ".".join(Path(file).with_suffix("").parts[1:]).removesuffix(".__init__")
            self._modules[module] = file
            self._names[file] = _names_in(path)

    def reaching(self, changed: AbstractSet[str]) -> set[str]:
        """Return the test files that name one of these modules or files, directly or not."""
        uses = {file: self._used_by(file) for file in self._names}
        reached = {file for file in uses if file in changed or not uses[file].isdisjoint(changed)}
        while more := {
            file for file in uses.keys() - reached if not uses[file].isdisjoint(reached)
        }:
            reached |= more
        return {file for file in reached if Path(file).name.startswith("test_")}

    def _used_by(self, file: str) -> AbstractSet[str]:
        names = self._names[file]
        helpers = {self._modules[each] for each in names if each in self._modules}
        above = {
            str(each / "conftest.py")
            for each in Path(file).parents
            if str(each / "conftest.py") in self._names
        }
        return {*names, *helpers, *above} - {file}


def _names_in(path: Path) -> AbstractSet[str]:
    """Collect the names that may be modules: imported, or written as a string."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                found.update(each.name for each in names)
            case ast.ImportFrom(module=str(module), names=names):
                found.update((module, *(f"{module}.{each.name}" for each in names)))
            case ast.Constant(value=str(text)):
                found.update((text, f"{text}.__main__") if text.isidentifier() else (text,))
            case _:
                pass
    return found
