"""Expectations of the items of a run in the file of the pipelines, and their check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.spec.quality.counts import MOST_FIELDS, WHOLE, QualityCounts

ITEMS = "items"
_SHARES = ("present", "valid")
_DIGITS = 4


@dataclass(frozen=True, slots=True)
class Expectation:
    """Bound of one share."""

    field: str
    """``items``: the number of items of a run."""
    what: str
    """``present`` or ``valid``, a share of the items; of ``items``, ``min``."""
    least: float
    tolerance: float = 0.0

    @property
    def name(self) -> str:
        """Name of the bound for people."""
        return f"{self.field}.{self.what}"


def read_expect(value: Any, where: str) -> Sequence[Expectation]:
    """The expectations of a TOML table; ConfigError."""
    if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
        raise ConfigError(f"{where}: expected a table, such as price = {{valid = 0.98}}")
    if len(value) > MOST_FIELDS:
        raise ConfigError(f"{where}: expected {MOST_FIELDS} fields at most")
    return tuple(
        found for name in value for found in _of_field(name, value[name], f"{where}.{name}")
    )


def _of_field(name: str, table: Mapping[str, Any], where: str) -> Sequence[Expectation]:
    known = ("min",) if name == ITEMS else (*_SHARES, "tolerance")
    for key, value in table.items():
        if key not in known:
            raise ConfigError(f"{where}: unknown key {key!r}; known: {', '.join(known)}")
        _check(key, value, f"{where}.{key}")
    wanted = [key for key in known if key in table and key != "tolerance"]
    if not wanted:
        raise ConfigError(f"{where}: expected {' or '.join(k for k in known if k != 'tolerance')}")
    tolerance = float(table.get("tolerance", 0))
    return [Expectation(name, key, float(table[key]), tolerance) for key in wanted]


def _check(key: str, value: Any, where: str) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if key == "min" and not (is_number and isinstance(value, int) and value > 0):
        raise ConfigError(f"{where}: expected an integer from 1 on")
    if key != "min" and not (is_number and 0 <= value <= 1):
        raise ConfigError(f"{where}: expected a share from 0 to 1, such as 0.98")


def fields_of(expect: Sequence[Expectation]) -> Sequence[str]:
    """The fields that are to be counted for it."""
    return tuple(dict.fromkeys(each.field for each in expect if each.field != ITEMS))


@dataclass(frozen=True, slots=True)
class ItemJudge:
    """Judge of the items of a run."""

    expect: Sequence[Expectation] = ()
    required: frozenset[str] = frozenset()
    """Fields that the score is taken of; none: all that are counted."""

    def record(self, quality: QualityCounts, *, pages: int) -> dict[str, Any]:
        """Return the quality of a run with this number of wanted pages, for its event.

        Fields are judged only where there are items. Empty: there are no numbers to report, or some
        of the counts were forgotten.
        """
        if quality.is_cut or not pages or not (quality.is_counted or self.expect):
            return {}
        told = [_judged(one, quality) for one in self.expect if one.field == ITEMS or quality.items]
        score = self.score(quality)
        return {
            "items": quality.items,
            "fields": _shares(quality),
            **({} if score is None else {"score": score}),
            **({"expect": told, "ok": all(each["met"] for each in told)} if told else {}),
        }

    def score(self, quality: QualityCounts) -> float | None:
        """Mean share of valid items over the required fields; None without items or fields."""
        names = self.required or quality.fields.keys() - {WHOLE}
        if not quality.items or not names:
            return None
        valid = sum(quality.fields[name].valid for name in names if name in quality.fields)
        return round(valid / len(names) / quality.items, _DIGITS)


def _shares(quality: QualityCounts) -> Mapping[str, Any]:
    """Return the shares of items by field, and errors by rule."""
    told: dict[str, Any] = {}
    for name, counted in sorted(quality.fields.items()):
        share = {"present": counted.present, "valid": counted.valid} if name != WHOLE else {}
        told[name] = {
            key: round(count / max(quality.items, 1), _DIGITS) for key, count in share.items()
        }
        if counted.errors:
            told[name]["errors"] = dict(sorted(counted.errors.items()))
    return told


def _judged(one: Expectation, quality: QualityCounts) -> Mapping[str, Any]:
    if one.field == ITEMS:
        value: float = quality.items
        return {one.name: int(one.least), "value": value, "met": value >= one.least}
    counted = quality.fields.get(one.field)
    count = getattr(counted, one.what) if counted else 0
    value = count / quality.items
    is_met = value >= one.least - one.tolerance
    return {one.name: one.least, "value": round(value, _DIGITS), "met": is_met}
