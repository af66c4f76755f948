"""Docstrings and comments are plain English, as help and errors are (`test_language`)."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from unit.project.test_language import BETTER, HOUSES, ROOT

OPENINGS = re.compile(r"\s*(what|whoever|who|whether|of|those|the same|one)\b", re.IGNORECASE)
"""First words of a docstring that has no subject."""

RIDDLES: Mapping[str, str] = {
    **BETTER,
    r"\btells?\b(?! apart)|\b(is|are|be|been|was|were) told\b": "report, return, send, notify",
    r"\b(is|are|be|been|was|were) asked\b(?! for)": "request, query, call",
    r"\bhears?\b|\bheard\b|\bheeds?\b": "receive, obey",
    r"\bowe[sd]?\b": "must, pending, outstanding",
    r"\bdear(er|est)?\b": "expensive",
    r"\beldest\b": "oldest",
    r"\bbeside\b": "besides, next to, while … runs",
}
"""Phrases that a reader has to translate, and what says the same at once."""

IN_PAGES: Mapping[str, str] = {
    **RIDDLES,
    r"\bits like\b": "similar",
    r"\bshall\b": "must, should, will",
    r"\byours to\b": "you choose, you set",
    r"\bOnly then (do|does|is|are)\b": "subject first: After that, its links …",
    r"\b(the )?other way about\b": "the reverse, the opposite",
    r"\bin turns\b": "alternating, one after the other",
    r"\bthe leave (of|to)\b": "permission",
    r"\bcalled after\b": "named after",
}
"""Phrases that no page for users has: these, and the inversions and calques of pages."""

PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]

_CODE = re.compile(r"``[^`]*``|`[^`]*`|--\S+|https?://\S+|:\w+:")
_COMMENT = re.compile(
    r'''"""(?:[^"\\]|\\.|"(?!""))*"""|"(?:[^"\\\n]|\\.)*"'''
    r"""|'''(?:[^'\\]|\\.|'(?!''))*'''|'(?:[^'\\\n]|\\.)*'|#(?P<comment>[^\n]*)""",
    re.DOTALL,
)
"""A comment of Python, or a string, which can have the sign of one in it."""
_BLOCK = re.compile(r"--\[\[(.*?)\]\]", re.DOTALL)
_LINE = re.compile(r"^\s*--(?!\[\[)(.*)$", re.MULTILINE)


def prose_of(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a Python or Lua file, and the paragraphs of a page."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".lua":
        yield from _BLOCK.findall(text)
        yield from _LINE.findall(text)
    elif path.suffix == ".md":
        yield from text.split("\n\n")
    else:
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                yield str(node.value.value)
        yield from (found["comment"] for found in _COMMENT.finditer(text) if found["comment"])


def riddles_in(path: Path, riddles: Mapping[str, str] = RIDDLES) -> Iterator[str]:
    """Yield each phrase of a file that a reader has to translate, with a better one."""
    name = os.path.relpath(path, ROOT)
    for text in prose_of(path):
        words = _CODE.sub("", text)
        if path.suffix != ".md" and OPENINGS.match(words):
            yield f"{name}: {text[:60]!r}: begin with a verb or a noun"
        for phrase, better in riddles.items():
            for found in re.finditer(phrase, words, re.IGNORECASE):
                context = words[max(0, found.start() - 30) : found.end() + 20]
                yield f"{name}: {' '.join(context.split())!r}: say {better}"


def _files() -> Iterator[Path]:
    for house in (*HOUSES, "benchmarks", "tests"):
        for suffix in ("py", "lua"):
            yield from sorted((ROOT / house).rglob(f"*.{suffix}"))
    yield from sorted((ROOT / "docs" / "adr").glob("*.md"))


def test_prose_needs_no_translation() -> None:
    """No docstring, comment or decision has a phrase that a reader has to translate."""
    faults = [fault for path in _files() for fault in riddles_in(path)]
    assert not faults, "\n".join(faults)


def test_pages_for_users_need_no_translation() -> None:
    """README, CONTRIBUTING, SECURITY and all of docs but the decisions have no such phrase."""
    assert not [fault for page in PAGES for fault in riddles_in(page, IN_PAGES)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.py", '"""What is read next."""\n'),
        ("a.py", "# Whoever asks is told.\n"),
        ("a.lua", "-- a run that is heard of\n"),
        ("a.lua", "--[[ guarantee: kept\n for ever ]]\n"),
    ],
)
def test_a_riddle_is_found(name: str, text: str, tmp_path: Path) -> None:
    """Docstrings, comments and headers of Lua are all read."""
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert list(riddles_in(file))
