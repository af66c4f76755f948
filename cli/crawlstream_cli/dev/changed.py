"""Which test files a change reaches, by what they import: for ``crawlstream test --changed``.

A test reaches a module that it, a fixture above it or a helper of the tests imports, directly or
not; and one that is named in a string on the way, as a command (``"crawlstream_cli.steer:stop"``)
or a process (``"kafka_monitor"``) is.
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
    "extract": "crawlstream_extract",
    "traces": "crawlstream_traces",
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
    graph = loading_graph(checkout)
    modules = {module for each in files for module in _modules_of(each, graph.modules)}
    reached = modules.union(*(graph.find_downstream_modules(each) for each in modules))
    found = Suite(checkout).reaching(
        reached | {each for each in files if each.startswith("tests/")}
    )
    if any(not each.startswith(("tests/", *(f"{top}/" for top in PACKAGES))) for each in files):
        found.add(_OTHER)
    return sorted(found, key=_cheap_first)


def loading_graph(checkout: Path) -> grimp.ImportGraph:
    """Return the product's import graph; a module imports what its strings name, if later.

    supervisord.conf is a module, too: it is named, and names others.
    """
    graph = grimp.build_graph(*PACKAGES.values())
    strings = {each.name: each.read_text().split() for each in checkout.glob("*.conf")}
    for name in strings:
        graph.add_module(name)
    for top, package in PACKAGES.items():
        for path in (checkout / top / package).rglob("*.py"):
            strings[_name_of(path.relative_to(checkout / top))] = _strings_in(path)
    modules = graph.modules
    for importer, texts in strings.items():
        for imported in {each for text in texts for each in _named_by(text, modules)} - {importer}:
            graph.add_import(importer=importer, imported=imported)
    return graph


def _strings_in(path: Path) -> list[str]:
    nodes = ast.walk(ast.parse(path.read_text()))
    found = [each.value for each in nodes if isinstance(each, ast.Constant)]
    return [each for each in found if isinstance(each, str)]


def _named_by(text: str, modules: AbstractSet[str]) -> AbstractSet[str]:
    """Return the modules that a text names: ``a.b``, ``a.b:name``, or ``a.`` for all in ``a``.

    A name without a dot is too often another thing.
    """
    if "." not in text:
        return frozenset()
    if text.endswith("."):
        return {each for each in modules if each.startswith(text)}
    name = text.partition(":")[0]
    return {name, f"{name}.__main__"} & modules


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
        yield from {file} & {*modules}
        return
    if file.endswith(".lua"):
        yield _LUA
        return
    path = Path(rest)
    name = _name_of(path)
    if path.name == "__init__.py":
        yield from (each for each in modules if f"{each}.".startswith(f"{name}."))
    elif path.suffix == ".py":
        yield from {name} & {*modules}
    else:
        folder = ".".join(path.parent.parts)
        yield from (each for each in modules if each.rpartition(".")[0] == folder)


def _name_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


class Suite:
    """The files below ``tests/`` and what each of them names."""

    def __init__(self, checkout: Path) -> None:
        self._modules: dict[str, str] = {}
        """A file by the name that other tests import it by."""
        self._names: dict[str, AbstractSet[str]] = {}
        for path in sorted((checkout / "tests").rglob("*.py")):
            file = str(path.relative_to(checkout))
            self._modules[_name_of(path.relative_to(checkout / "tests"))] = file
            self._names[file] = _names_in(path)

    @property
    def named(self) -> AbstractSet[str]:
        """All names that may be modules."""
        return frozenset().union(*self._names.values())

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
