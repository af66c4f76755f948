"""Definition of a field of a throttle rule; the rule itself lists its fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

_MOST_APPLIED = 2**31 - 1
"""Largest number of a rule in the frontier, which stores 32 bits: windows are cut at 24 days."""
_PER_UNIT = 1000
"""Factor for numbers with a fraction: the frontier stores seconds as milliseconds."""


@dataclass(frozen=True, slots=True)
class RuleField:
    """Field of a rule: its name, type, bounds and default, and how it is shown to people.

    ZooKeeper, the commands, REST and the dashboard read and show each field by this definition.
    """

    meaning: str
    """Meaning of the field in one sentence."""
    least: float = 0
    most: float = 1
    """Bounds of a number, inclusive."""
    name: str = ""
    """Key in ZooKeeper, REST and options; default: the name of the attribute."""
    label: str = ""
    """Heading of a column, or label of an input; default: the name."""
    unit: str = ""
    """Unit of a number: ``s`` for seconds."""
    words: tuple[str, str] = ("no", "yes")
    """Words for false and true."""
    flags: str = ""
    """Option of the command line; default: ``--name``."""
    phrase: str = ""
    """Its part of the rule in words, with ``{}`` for the value; default: nothing."""
    is_inherited: bool = True
    """True if a domain's rule without the field has the value of the default rule."""
    is_applied: bool = True
    """True if the field is sent to the frontier; False: another field includes it."""
    is_time: bool = False
    """True if the value is a time in epoch seconds; 0: no time."""
    is_late: bool = False
    """True if the field is sent to the frontier only if it differs from its default."""
    off_below: float = 0
    """Smallest number other than 0, which switches the field off; 0: the field is never off."""
    attribute: str = ""
    kind: type = int
    default: Any = None
    """Default value; None: the field is required. The rule's attribute sets these three."""

    def of(self, attribute: str, kind: type, default: Any) -> RuleField:
        """Return the field for an attribute of the rule."""
        name = self.name or attribute
        return replace(
            self,
            name=name,
            label=self.label or name,
            flags=self.flags or f"--{name}",
            attribute=attribute,
            kind=kind,
            default=default,
        )

    @property
    def is_required(self) -> bool:
        """Return whether every rule must have the field."""
        return self.default is None

    def value_of(self, rule: object) -> Any:
        """Return the value that a rule has for the field."""
        return getattr(rule, self.attribute)

    @property
    def is_truth(self) -> bool:
        """Return whether the value is true or false."""
        return self.kind is bool

    @property
    def is_whole(self) -> bool:
        """Return whether the value is a whole number."""
        return self.kind is int

    @property
    def bounds(self) -> tuple[float, float] | tuple[None, None]:
        """Return the bounds of a number."""
        return (None, None) if self.is_truth else (self.least, self.most)

    @property
    def wanted(self) -> str:
        """Return a description of valid values."""
        if self.is_truth:
            return "true or false"
        what = "a whole number" if self.is_whole else "a number"
        seconds = " of seconds" if self.unit == "s" else ""
        off = "0 (off) or " if self.off_below else ""
        least = self.off_below or self.least
        return f"{off}{what}{seconds} from {least:.12g} to {self.most:.12g}"

    def accepts(self, value: object) -> bool:
        """Return whether a value from outside is valid for the field."""
        if isinstance(value, bool) or self.is_truth:
            return isinstance(value, bool) and self.is_truth
        if self.is_whole and isinstance(value, float) and not value.is_integer():
            return False
        if self.off_below and isinstance(value, int | float) and 0 < value < self.off_below:
            return False
        return isinstance(value, int | float) and self.least <= value <= self.most

    def is_told(self, rule: object) -> bool:
        """Return whether a rule has a value for the field that is worth showing."""
        return bool(self.value_of(rule)) or not (self.is_time or self.off_below)

    def shown(self, value: Any) -> str:
        """Return a value as people see it."""
        if self.is_truth:
            return self.words[value]
        if self.is_time:
            return (
                datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
                if value
                else ""
            )
        return f"{value:.12g} {self.unit}".rstrip()

    def applied(self, value: Any) -> int:
        """Return a value as the frontier stores it: a whole number within its range."""
        scale = _PER_UNIT if self.kind is float else 1
        most = self.most if self.is_time else _MOST_APPLIED
        return int(min(max(value, self.least) * scale, most))

    def from_applied(self, number: int) -> Any:
        """Return the value that the frontier stores as this number."""
        return self.kind(number / _PER_UNIT if self.kind is float else number)
