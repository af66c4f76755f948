"""Rotation: no verifier meets a key that it may not know; each step waits for the one before."""

from __future__ import annotations

import pytest

from crawlstream.signing.directory import MAX_AGE_S, Directory, Times
from crawlstream_cli.signing.rotation import next_step

STEPS: dict[str, tuple[list[str], dict[str, Times], str, int]] = {
    "not listed": (["old"], {"old": Times(10, 10)}, "Step 1 of 3: add", 0),
    "not published": (["old", "new"], {"old": Times(10, 10)}, "Step 1 of 3: run", 0),
    "published": (
        ["old", "new"], {"old": Times(1, 1), "new": Times(50)}, "Step 2 of 3: put", 50 + MAX_AGE_S,
    ),
    "first, but not in the file": (
        ["new", "old"], {"old": Times(10, 10), "new": Times(50)}, "Step 2 of 3: run", 0,
    ),
    "signs": (
        ["new", "old"], {"old": Times(10), "new": Times(50, 90)}, "Step 3 of 3", 90 + MAX_AGE_S,
    ),
    "alone": (["new"], {"new": Times(50, 90)}, "Nothing is left", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_each_step_names_what_to_do_and_from_when(name: str) -> None:
    """Names each step and its time, by what is listed and published."""
    listed, times, words, not_before = STEPS[name]
    step = next_step(listed, "new", Directory("", {}, 0, times))
    assert words in step.sentence
    assert step.not_before == not_before


def test_a_first_key_is_published_before_it_signs() -> None:
    """Publishes a first key before it signs, also without any directory."""
    assert "add the new key" in next_step([], "new", None).sentence
