"""Differences of two texts by lines: E. Myers, "An O(ND) Difference Algorithm" (1986), bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

MOST_STEPS = 200_000
"""Lines compared and places kept, so that two texts take at most some tenths of a second."""
MOST_BYTES = 16 * 1024
"""Bytes of a diff, in UTF-8; of a longer one only the numbers of lines are reported."""
_CONTEXT = 3
"""Equal lines that are shown before and after a change."""


class LineDiff(NamedTuple):
    """Lines by which a text differs from an earlier one."""

    added: int
    removed: int
    text: str | None
    """Hunks of the unified format; None: too long, or too many steps to find."""


class _Change(NamedTuple):
    """Lines of the old text, from ``old`` to ``old_end``, and those that replace them."""

    old: int
    old_end: int
    new: int
    new_end: int


def diff_lines(before: str, after: str, *, most_steps: int = MOST_STEPS) -> LineDiff:
    """Return the fewest lines to remove and to add.

    If finding them takes too many steps, the numbers are those of lines that the other text has
    less often: moved lines do not count then.
    """
    old, new = _lines_of(before), _lines_of(after)
    head = _equal_lines(old, new)
    tail = _equal_lines(old[head:][::-1], new[head:][::-1])
    rows = _fronts(old[head : len(old) - tail], new[head : len(new) - tail], most_steps)
    if rows is None:
        were, are = Counter(old), Counter(new)
        return LineDiff((are - were).total(), (were - are).total(), None)
    ends = len(old) - head - tail, len(new) - head - tail
    changes = [_Change(*(place + head for place in each)) for each in _changes(rows, *ends)]
    return LineDiff(
        sum(each.new_end - each.new for each in changes),
        sum(each.old_end - each.old for each in changes),
        _shown(changes, old, new),
    )


def _lines_of(text: str) -> list[str]:
    """Return the lines, which end with a line feed and nothing else."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def _equal_lines(old: Sequence[str], new: Sequence[str]) -> int:
    """Return the number of equal lines at the beginning."""
    count = 0
    for one, other in zip(old, new, strict=False):
        if one != other:
            break
        count += 1
    return count


def _fronts(old: Sequence[str], new: Sequence[str], most_steps: int) -> list[list[int]] | None:
    """Return how far any path of 0, 1, 2 … changes comes; None: that takes too many steps.

    Row ``d`` has the furthest place in ``old`` on each of the diagonals -d, -d + 2 … d, where a
    diagonal is the place in ``old`` less that in ``new``.
    """
    steps, rows, row = 0, list[list[int]](), list[int]()
    while True:
        before, row, depth = row, [], len(rows)
        for at in range(depth + 1):
            x = _step(before, at)
            y = start = x - (2 * at - depth)
            while x < len(old) and y < len(new) and old[x] == new[y]:
                x, y = x + 1, y + 1
            row.append(x)
            steps += 1 + y - start
            if x >= len(old) and y >= len(new):
                return [*rows, row]
            if steps > most_steps:
                return None
        rows.append(row)


def _step(before: Sequence[int], at: int) -> int:
    """Return the furthest place in the old text after one change more, on a diagonal."""
    if not before:
        return 0
    return before[at] if _is_added(before, at) else before[at - 1] + 1


def _is_added(before: Sequence[int], at: int) -> bool:
    """Return whether that change adds a line of the new text, instead of removing an old one."""
    return at == 0 or (at < len(before) and before[at - 1] < before[at])


def _changes(rows: Sequence[Sequence[int]], old_end: int, new_end: int) -> Sequence[_Change]:
    """Return the changes of the path whose last row reaches the ends of both texts."""
    singles = [_Change(old_end, old_end, new_end, new_end)]
    at = (old_end - new_end + len(rows) - 1) // 2
    for depth in range(len(rows) - 1, 0, -1):
        before, diagonal = rows[depth - 1], 2 * at - depth
        x = _step(before, at)
        y = x - diagonal
        if _is_added(before, at):
            singles.append(_Change(x, x, y - 1, y))
        else:
            singles.append(_Change(x - 1, x, y, y))
            at -= 1
    return list(_joined(singles[:0:-1]))


def _joined(singles: Sequence[_Change]) -> Iterator[_Change]:
    """Join changes of single lines that follow each other."""
    begin = 0
    for at in range(1, len(singles) + 1):
        last = singles[at - 1]
        if at == len(singles) or (last.old_end, last.new_end) != (singles[at].old, singles[at].new):
            first = singles[begin]
            yield _Change(first.old, last.old_end, first.new, last.new_end)
            begin = at


def _shown(changes: Sequence[_Change], old: Sequence[str], new: Sequence[str]) -> str | None:
    """Return changes in the unified format; None: they are too long."""
    lines, size = list[str](), 0
    for hunk in _hunks(changes):
        for line in _hunk_lines(hunk, old, new):
            lines.append(line)
            size += len(line.encode()) + 1
            if size > MOST_BYTES:
                return None
    return "".join(f"{line}\n" for line in lines)


def _hunks(changes: Sequence[_Change]) -> Iterator[Sequence[_Change]]:
    """Group changes whose context would touch."""
    begin = 0
    for at, (one, other) in enumerate(pairwise(changes), 1):
        if other.old - one.old_end > 2 * _CONTEXT:
            yield changes[begin:at]
            begin = at
    if changes:
        yield changes[begin:]


def _hunk_lines(hunk: Sequence[_Change], old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    first, last = hunk[0], hunk[-1]
    lead = min(_CONTEXT, first.old)
    follow = min(_CONTEXT, len(old) - last.old_end)
    removed = _range(first.old - lead, last.old_end + follow)
    yield f"@@ -{removed} +{_range(first.new - lead, last.new_end + follow)} @@"
    at = first.old - lead
    for each in hunk:
        yield from (f" {line}" for line in old[at : each.old])
        yield from (f"-{line}" for line in old[each.old : each.old_end])
        yield from (f"+{line}" for line in new[each.new : each.new_end])
        at = each.old_end
    yield from (f" {line}" for line in old[at : at + follow])


def _range(begin: int, end: int) -> str:
    """Return first line, from 1 on, and number of lines; of none, the line before."""
    return f"{begin + (end > begin)},{end - begin}"
