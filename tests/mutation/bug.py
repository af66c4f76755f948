"""A bug that a person might write, and the test that must find it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Bug(NamedTuple):
    """A module, what stands in exactly one place of it, and what is put there instead."""

    module: str
    right: str
    wrong: str
    test: str
    """The file of the test that finds it, and pytest's expression for the test."""
    red_by: Sequence[str] = ("AssertionError", "Failed", "TimeoutError")
    """Text of the failure that finds it: an assertion, or an error that only the bug explains."""
