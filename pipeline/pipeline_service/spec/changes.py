"""Settings of the events for changes that a memory finds, in the file of the pipelines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.spec.quantities import flag, known, table

BY_LINES, NO_DIFF = "lines", "none"
TEXT_STAGES = ("markdown", "text")
"""Stages that make a text whose lines can be compared, each a field of its name."""
_KEYS = ("events", "diff")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangesSpec:
    """Events of a memory for the changes that it finds."""

    diff: str = NO_DIFF
    """``lines``: an event has the lines of the text that were added and removed."""

    @property
    def has_diff(self) -> bool:
        """Return whether events have a diff."""
        return self.diff == BY_LINES

    @property
    def digest_words(self) -> Sequence[str]:
        """Words for the digest of the settings that all processes must have in common."""
        return ("changes", *([self.diff] if self.has_diff else []))


def read_changes(value: Any, where: str) -> ChangesSpec | None:
    """Read a table of TOML; None: there are no events. ConfigError."""
    told = table(value, where)
    known(told, _KEYS, where)
    if "events" not in told:
        raise ConfigError(f"{where}: missing: events = true")
    if flag(told["events"], f"{where}.events"):
        return ChangesSpec(diff=_diff(told, where))
    if others := [key for key in told if key != "events"]:
        raise ConfigError(f"{where}.{others[0]} needs events = true")
    return None


def _diff(told: Mapping[str, Any], where: str) -> str:
    found = told.get("diff", NO_DIFF)
    if found not in (BY_LINES, NO_DIFF):
        raise ConfigError(f'{where}.diff: expected "{BY_LINES}" or "{NO_DIFF}"')
    return str(found)
