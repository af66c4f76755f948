"""Numbers of items and of their fields: present, valid, and errors by rule; bounded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MOST_FIELDS = 100
MOST_RULES = 20
"""Largest number of rules of a field; errors of others count as ``other``."""
WHOLE = "$"
"""The item itself, in place of one of its fields."""
_OTHER = "other"


@dataclass(slots=True)
class FieldCount:
    """Number of items in which a field is there, and fits."""

    present: int = 0
    """Not null, and no empty text, list or object."""
    valid: int = 0
    """Present, and no rule fails."""
    errors: Counter[str] = field(default_factory=Counter)
    """By rule, such as ``minimum`` or ``required``."""

    def note(self, rule: str, count: int = 1) -> None:
        """Count errors."""
        is_known = rule in self.errors or len(self.errors) < MOST_RULES
        self.errors[rule if is_known else _OTHER] += count


@dataclass(slots=True)
class QualityCounts:
    """Quality of some items: those of a page, or those of a run."""

    items: int = 0
    fields: dict[str, FieldCount] = field(default_factory=dict)
    """Counts by field, ``a.b`` for one in an object; ``$`` has errors of items as a whole."""
    is_cut: bool = False
    """True if counts of some items were forgotten, so that the numbers are not of all."""

    def count(
        self, item: Mapping[str, Any], declared: Iterable[str], errors: Sequence[tuple[str, str]]
    ) -> None:
        """Count one item: its declared fields, and each (field, rule) that fails."""
        self.items += 1
        failing = dict.fromkeys(name for name, _ in errors)
        for name in declared:
            counted = self.fields.setdefault(name, FieldCount())
            if _is_present(item, name):
                counted.present += 1
                counted.valid += name not in failing
        for name, rule in errors:
            self.fields.setdefault(name, FieldCount()).note(rule)

    def add(self, other: QualityCounts) -> None:
        """Add another's numbers."""
        self.is_cut = self.is_cut or other.is_cut
        self.items += other.items
        for name, counted in other.fields.items():
            if name not in self.fields and len(self.fields) > MOST_FIELDS:
                continue
            ours = self.fields.setdefault(name, FieldCount())
            ours.present += counted.present
            ours.valid += counted.valid
            for rule, count in sorted(counted.errors.items()):
                ours.note(rule, count)

    def forget(self) -> None:
        """Drop all numbers; from now on none are reported."""
        self.is_cut = self.is_cut or self.is_counted
        self.items = 0
        self.fields.clear()

    @property
    def is_counted(self) -> bool:
        """Return whether there are numbers to report."""
        return bool(self.items or self.fields)

    def as_record(self) -> dict[str, Any]:
        """As an object of JSON: of each field the items with it, the valid ones, the errors."""
        fields = {
            name: [one.present, one.valid, dict(sorted(one.errors.items()))]
            for name, one in sorted(self.fields.items())
        }
        return {"items": self.items, "fields": fields, **({"cut": True} if self.is_cut else {})}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> QualityCounts:
        """Read such an object; KeyError, TypeError, ValueError for anything else."""
        fields = {
            str(name): FieldCount(int(present), int(valid), Counter(errors))
            for name, (present, valid, errors) in record["fields"].items()
        }
        return cls(int(record["items"]), fields, bool(record.get("cut", False)))


def _is_present(item: Mapping[str, Any], name: str) -> bool:
    value: Any = item
    for part in (name,) if name in item else name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value is not None and value not in ("", [], {})
