"""Each planted bug still has its place: seen at once, not by the run of all of them at night."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from mutation.bug import Bug
from mutation.bugs import BUGS


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_what_a_bug_replaces_stands_in_exactly_one_place(bug: Bug) -> None:
    """A change of the line needs a change of the bug."""
    spec = find_spec(bug.module)
    assert spec is not None
    assert spec.origin is not None
    assert Path(spec.origin).read_text().count(bug.right) == 1


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
def test_the_file_of_the_test_that_finds_it_exists(bug: Bug) -> None:
    """Its name may have moved."""
    assert (Path(__file__).parents[2] / bug.test.partition("::")[0]).is_file()
