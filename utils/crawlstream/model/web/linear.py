"""RE2: clients' regular expressions in time linear in the text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import re2

LINEAR_BYTES = 256 * 1024
"""Memory for one list of expressions."""


def linear_options() -> Any:
    """Return the options of every expression of a client."""
    options = re2.Options()
    options.max_mem = LINEAR_BYTES
    options.log_errors = False
    options.never_capture = True
    return options


def linear_problem(expression: str) -> str:
    """Return why RE2 does not take an expression; empty if it does."""
    try:
        re2.compile(expression, linear_options())
    except re2.error as error:
        cause: object = error.args[0] if error.args else ""
        return cause.decode(errors="replace") if isinstance(cause, bytes) else str(cause)
    return ""


def linear_set(expressions: Sequence[str]) -> Any:
    """Return RE2's set of some expressions, the empty one first; None if it cannot hold them.

    The empty expression is always found, unless RE2's memory did not suffice for a text.
    """
    if not expressions:
        return None
    found = re2.Set.SearchSet(linear_options())
    try:
        for each in ("", *expressions):
            found.Add(each)
        found.Compile()
    except re2.error:
        return None
    return found if found.Match("") else None
