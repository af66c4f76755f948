"""The index of decisions has each of them, under its title."""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).parents[3] / "docs" / "adr"


def test_the_index_lists_each_decision_once() -> None:
    """A reader finds by subject what was decided, and nothing is missing there."""
    listed = re.findall(
        r"^- \[(.+?)\]\((0[^)]+)\)", (FOLDER / "README.md").read_text(), re.MULTILINE
    )
    titles = {
        path.name: path.read_text().splitlines()[0].removeprefix("# ")
        for path in FOLDER.glob("0*.md")
    }
    assert len(listed) == len(titles)
    assert {name: title for title, name in listed} == titles


def test_a_number_names_one_decision() -> None:
    """Each decision has a number of its own, which its title repeats."""
    numbers = [path.name[:4] for path in FOLDER.glob("0*.md")]
    assert len(numbers) == len(set(numbers))
    for path in FOLDER.glob("0*.md"):
        assert path.read_text().startswith(f"# {int(path.name[:4])}. "), path.name
