"""Diffs of two texts by lines."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_service.memory.kept_text import MOST_BYTES as MOST_KEPT
from pipeline_service.memory.kept_text import pack, text_of, unpack
from pipeline_service.memory.line_diff import MOST_BYTES, LineDiff, diff_lines

LINES = st.lists(
    st.sampled_from(["", "a", "b", "c", "@@ -1,1 +1,1 @@", "-", "+", " "]), max_size=30
)
_HEAD = re.compile(r"@@ -(\d+),(\d+) \+(\d+),(\d+) @@\Z")


def text(lines: Sequence[str]) -> str:
    """Lines as a text."""
    return "".join(f"{line}\n" for line in lines)


def patched(old: Sequence[str], hunks: str) -> Sequence[str]:
    """Return the lines that a patch makes of others, by the definition of the unified format."""
    new: list[str] = []
    at, rest = 0, hunks.split("\n")[:-1]
    while rest:
        found = _HEAD.match(rest.pop(0))
        assert found
        begin, count, new_begin, new_count = map(int, found.groups())
        begin -= count > 0
        new += old[at:begin]
        at = begin
        assert len(new) == new_begin - (new_count > 0)
        until, new_until = at + count, len(new) + new_count
        while (at, len(new)) != (until, new_until):
            mark, line = rest[0][0], rest.pop(0)[1:]
            if mark in " -":
                assert old[at] == line
                at += 1
            if mark in " +":
                new.append(line)
    return [*new, *old[at:]]


def most_in_common(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the length of the longest common subsequence, by trying all."""
    row = [0] * (len(new) + 1)
    for one in old:
        before, row = row, [0]
        for at, other in enumerate(new):
            row.append(before[at] + 1 if one == other else max(before[at + 1], row[at]))
    return row[-1]


@given(LINES, LINES)
def test_a_diff_makes_one_text_of_the_other_with_the_fewest_lines(
    old: Sequence[str], new: Sequence[str]
) -> None:
    """No line is removed or added that could stay."""
    diff = diff_lines(text(old), text(new))
    assert diff.text is not None
    assert patched(old, diff.text) == new
    common = most_in_common(old, new)
    assert (diff.added, diff.removed) == (len(new) - common, len(old) - common)


def test_three_equal_lines_are_shown_around_a_change() -> None:
    """Changes with at most six equal lines between them share a hunk."""
    old = [str(n) for n in range(30)]
    new = ["x" if n in ("9", "16", "27") else n for n in old]
    diff = diff_lines(text(old), text(new))
    assert diff.text is not None
    heads = [line for line in diff.text.splitlines() if line.startswith("@@")]
    assert heads == ["@@ -7,14 +7,14 @@", "@@ -25,6 +25,6 @@"]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        # Too many steps: lines that the other text has less often.
        ([n % 2 for n in range(30_000)], [n % 3 for n in range(30_000)], (10_000, 10_000)),
        # A patch that is too long: the numbers are exact.
        ((), ["x" * 99] * (MOST_BYTES // 100 + 1), (MOST_BYTES // 100 + 1, 0)),
    ],
)
def test_of_a_long_diff_only_numbers_are_known(
    old: Sequence[object], new: Sequence[object], expected: tuple[int, int]
) -> None:
    """They are exact, or, where that takes too many steps, do not count lines that moved."""
    found = diff_lines(text([str(n) for n in old]), text([str(n) for n in new]))
    assert found == LineDiff(*expected, None)


@pytest.mark.parametrize("line", ["é" * 50 + "\n", "é"])
def test_of_a_long_text_the_beginning_is_kept(line: str) -> None:
    """It ends with a whole line if there is one, and has another name than the whole text."""
    whole = text_of(line * (MOST_KEPT // len(line)))
    assert not whole.is_whole
    assert MOST_KEPT - 101 < len(whole.text.encode()) <= MOST_KEPT
    assert text_of(whole.text).signature != whole.signature
    assert text_of(whole.text).is_whole
    assert unpack(whole.signature, pack(whole), is_whole=False) == whole


def test_any_text_is_kept() -> None:
    """Keeps any text, also an empty one, and one with half a surrogate pair."""
    for said in ("", "a\ud800b\x00"):
        kept = text_of(said)
        assert unpack(kept.signature, pack(kept), is_whole=True) == kept
