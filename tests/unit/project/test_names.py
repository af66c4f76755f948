"""Names: a module is named after what is in it, and a class shares its name with no other.

``names.txt`` has the names that three or more modules have, and those that two or more classes
have. It may only shrink.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from unit.project.test_architecture import SOURCES

SHARED = set(Path(__file__).with_name("names.txt").read_text(encoding="utf-8").splitlines())


def test_no_name_is_given_to_a_third_module() -> None:
    """A reader who opens a file by its name opens the right one."""
    names = Counter(path.stem for path in SOURCES)
    assert {f"module {name}" for name, times in names.items() if times > 2} <= SHARED


def test_no_name_is_given_to_a_second_class() -> None:
    """A class name is unique in the whole product."""
    names = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {f"class {name}" for name, times in names.items() if times > 1} <= SHARED
