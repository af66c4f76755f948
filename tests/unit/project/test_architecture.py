"""Sizes and shapes that keep every part readable; import borders are lint-imports' to hold."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from crawlstream_cli.dev.changed import PACKAGES

ROOT = Path(__file__).parents[3]
HOUSES = tuple(PACKAGES)

FILE_LINES = 400
TEST_FILE_LINES = 550
"""A list of behaviours may be longer than the idea that it is about."""
CLASS_LINES = 250
FUNCTION_LINES = 50
USUAL_FUNCTION_LINES = 25
POSITIONAL_ARGUMENTS = 4
FOLDER_FILES = 20

Function = ast.FunctionDef | ast.AsyncFunctionDef


def _files(pattern: str, *folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob(pattern))


SOURCES = _files("*.py", *HOUSES)
TESTS = _files("*.py", "tests")
SCRIPTS = _files("*.lua", *HOUSES)


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def _nodes(paths: list[Path]) -> Iterator[tuple[Path, ast.AST]]:
    for path in paths:
        for node in ast.walk(_tree(path)):
            yield path, node


def _place(path: Path, node: ast.ClassDef | Function) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def _lines(node: ast.ClassDef | Function) -> int:
    """Lines of code: what stands below the docstring, the signature included."""
    assert node.end_lineno is not None
    total = node.end_lineno - node.lineno + 1
    first = node.body[0]
    if ast.get_docstring(node) and first.end_lineno is not None:
        total -= first.end_lineno - first.lineno + 1
    return total


def _functions() -> list[tuple[Path, Function]]:
    return [(path, node) for path, node in _nodes(SOURCES) if isinstance(node, Function)]


def test_files_are_short() -> None:
    """A file holds one idea."""
    limits = dict.fromkeys([*SOURCES, *SCRIPTS, ROOT / "crawlstream"], FILE_LINES)
    limits |= dict.fromkeys(TESTS, TEST_FILE_LINES)
    sizes = {path: len(path.read_text().splitlines()) for path in limits}
    assert not {str(path): n for path, n in sizes.items() if n > limits[path]}


def test_folders_are_small() -> None:
    """A folder can be taken in at a glance; what is more has rooms of its own."""
    files = [*SOURCES, *TESTS, *_files("*.py", "benchmarks")]
    sizes = Counter(path.parent for path in files if path.name != "__init__.py")
    assert not {str(folder): n for folder, n in sizes.items() if n > FOLDER_FILES}


def test_classes_are_short() -> None:
    """A class does one thing."""
    classes = [(path, node) for path, node in _nodes(SOURCES) if isinstance(node, ast.ClassDef)]
    assert not [_place(path, node) for path, node in classes if _lines(node) > CLASS_LINES]


def test_functions_are_short() -> None:
    """A function fits on a screen, and nearly all of them in half of it."""
    functions = _functions()
    assert not [_place(path, node) for path, node in functions if _lines(node) > FUNCTION_LINES]
    long = [_place(path, node) for path, node in functions if _lines(node) > USUAL_FUNCTION_LINES]
    assert len(long) <= len(functions) * 0.05, long


def test_positional_arguments_are_few() -> None:
    """Requires names for arguments from the fifth on."""

    def count(function: Function) -> int:
        names = [argument.arg for argument in function.args.posonlyargs + function.args.args]
        return len([name for name in names if name not in {"self", "cls"}])

    assert not [
        _place(path, node)
        for path, node in _functions()
        if count(node) > POSITIONAL_ARGUMENTS and not _is_named_by_others(path, node)
    ]


def _is_named_by_others(path: Path, function: Function) -> bool:
    """Commands are called by option names; camelCase is Twisted's, and so is its signature."""
    return "cli" in path.parts or function.name != function.name.lower()


def test_the_environment_is_read_at_the_edge() -> None:
    """Below ``boot``, modules are given settings as arguments; none reads the environment."""
    core = [ROOT / top / PACKAGES[top] for top in ("utils", "frontier", "extract", "traces")]
    below = [p for p in SOURCES if set(core) & set(p.parents) and "boot" not in p.parts]
    assert below
    assert not [path for path in below if re.search(r"os\.environ|getenv", path.read_text())]


def test_folders_of_houses_are_not_packages() -> None:
    """An ``__init__.py`` there would make ``utils`` or ``tests`` a package, too."""
    for folder in (*HOUSES, "docker", "tests"):
        assert not (ROOT / folder / "__init__.py").exists()


def test_benchmarks_use_nothing_of_the_tests() -> None:
    """Code that both need is in the product; lint-imports checks the product itself."""
    tests = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir()}
    found = [
        f"{path.relative_to(ROOT)}: {module}"
        for path, node in _nodes(_files("*.py", "benchmarks"))
        for module in _imported(node)
        if module.partition(".")[0] in tests
    ]
    assert not found


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [name.name for name in node.names] if isinstance(node, ast.Import) else []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_say_what_they_are(path: Path) -> None:
    """Every module opens with a docstring and the annotations of the future."""
    tree = _tree(path)
    assert ast.get_docstring(tree)
    if any(isinstance(node, ast.Import | ast.ImportFrom | Function) for node in tree.body):
        assert "from __future__ import annotations" in path.read_text()


def test_every_test_tells_its_behaviour() -> None:
    """A test's docstring is a sentence of what must hold."""
    tests = [
        (path, node)
        for path, node in _nodes(TESTS)
        if isinstance(node, Function) and node.name.startswith("test_")
    ]
    assert not [_place(path, node) for path, node in tests if not ast.get_docstring(node)]


def test_nothing_is_left_for_later() -> None:
    """Open tasks are in issues, not in the code."""
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    found = [
        f"{path.relative_to(ROOT)}: {mark}"
        for path in [*SOURCES, *TESTS, *SCRIPTS]
        for mark in marks
        if mark in path.read_text()
    ]
    assert not found
