"""What there is to know of a field of a throttle rule; the rule itself lists its fields."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

_MOST_APPLIED = 2**31 - 1
"""The frontier keeps numbers of a rule in 32 bits: windows are cut at 24 days."""
_PER_UNIT = 1000
"""Of a number with a fraction the frontier keeps the thousandths: of seconds, milliseconds."""


@dataclass(frozen=True, slots=True)
class RuleField:
    """A field of a rule: its name, type, bounds and default, and how people are told of it.

    ZooKeeper, the commands, REST and the dashboard read and show each field as this says.
    """

    meaning: str
    """One sentence."""
    least: float = 0
    most: float = 1
    """Bounds of a number, which belong to it."""
    name: str = ""
    """Key in ZooKeeper, REST and options; default: the name of the attribute."""
    label: str = ""
    """Head of a column, or of an input; default: the name."""
    unit: str = ""
    """Of a number: ``s`` for seconds."""
    words: tuple[str, str] = ("no", "yes")
    """What false and true are called."""
    flags: str = ""
    """Option of the command line; default: ``--name``."""
    phrase: str = ""
    """What the rule in words says of it, with ``{}`` for the value; default: nothing."""
    is_inherited: bool = True
    """Whether a domain's rule without it has the value of the default rule."""
    is_applied: bool = True
    """Whether the frontier is given it; False: another field carries it."""
    is_time: bool = False
    """Whether it is a moment in epoch seconds; 0: none."""
    is_late: bool = False
    """Whether the frontier is told of it only where it is not at its default."""
    attribute: str = ""
    kind: type = int
    default: Any = None
    """None: it must be given. These three come from the attribute of the rule."""

    def of(self, attribute: str, kind: type, default: Any) -> RuleField:
        """The field, of an attribute of the rule."""
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
        """Whether every rule must give it."""
        return self.default is None

    def value_of(self, rule: object) -> Any:
        """The value that a rule has for it."""
        return getattr(rule, self.attribute)

    @property
    def is_truth(self) -> bool:
        """Whether it is true or false."""
        return self.kind is bool

    @property
    def is_whole(self) -> bool:
        """Whether it is a whole number."""
        return self.kind is int

    @property
    def bounds(self) -> tuple[float, float] | tuple[None, None]:
        """Least and most of a number."""
        return (None, None) if self.is_truth else (self.least, self.most)

    @property
    def wanted(self) -> str:
        """What a value may be, in words."""
        if self.is_truth:
            return "true or false"
        what = "a whole number" if self.is_whole else "a number"
        seconds = " of seconds" if self.unit == "s" else ""
        return f"{what}{seconds} from {self.least:.12g} to {self.most:.12g}"

    def accepts(self, value: object) -> bool:
        """Whether a value from outside is one of this field."""
        if isinstance(value, bool) or self.is_truth:
            return isinstance(value, bool) and self.is_truth
        if self.is_whole and isinstance(value, float) and not value.is_integer():
            return False
        return isinstance(value, int | float) and self.least <= value <= self.most

    def shown(self, value: Any) -> str:
        """A value as people see it."""
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
        """A value as the frontier keeps it: a whole number, within what can be counted."""
        scale = _PER_UNIT if self.kind is float else 1
        most = self.most if self.is_time else _MOST_APPLIED
        return int(min(max(value, self.least) * scale, most))

    def from_applied(self, number: int) -> Any:
        """The value that the frontier keeps as this number."""
        return self.kind(number / _PER_UNIT if self.kind is float else number)
