"""Findings about single lines of a project."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Remedy(StrEnum):
    """Change that a line needs, if any."""

    WORKS = "works"
    UNUSED = "unused"
    """Nothing reads it any more, and nothing has to."""
    SET = "set"
    """A setting that belongs into the environment."""
    RENAME = "rename"
    CHANGE = "change"
    """It has to be written in another way."""


UNTOLD = "..."
"""Placeholder for the value of a setting that is secret, or known only at run time."""

TO_DO = frozenset({Remedy.SET, Remedy.RENAME, Remedy.CHANGE})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """A line of a project, and the change that it needs."""

    file: str
    """Below the project, with slashes."""
    line: int
    """From 1; 0 for the file as a whole."""
    name: str
    """The setting, class, module or command."""
    verdict: Remedy
    advice: str
    setting: tuple[str, str] | None = None
    """The variable that says the same here, and its value, or ``UNTOLD``."""
