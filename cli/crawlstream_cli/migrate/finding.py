"""What is told of one line of a project."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What becomes of a line, and so whether there is anything to do."""

    WORKS = "works"
    UNUSED = "unused"
    """Nothing reads it any more, and nothing has to."""
    SET = "set"
    """A setting that belongs into the environment."""
    RENAME = "rename"
    CHANGE = "change"
    """It has to be written in another way."""


UNTOLD = "..."
"""Stands for the value of a setting that is secret, or that only running the project would tell."""

TO_DO = frozenset({Verdict.SET, Verdict.RENAME, Verdict.CHANGE})


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One line of a project and what becomes of it."""

    file: str
    """Below the project, with slashes."""
    line: int
    """From 1; 0 for the file as a whole."""
    name: str
    """The setting, class, module or command."""
    verdict: Verdict
    advice: str
    setting: tuple[str, str] | None = None
    """The variable that says the same here, and its value, or ``UNTOLD``."""
