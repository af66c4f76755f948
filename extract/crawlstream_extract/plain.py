"""Values of users as values of JSON: what leaves a stage can be stored anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

_LEVELS = 50
_BIGGEST = 1 << 63


def plain_fields(item: Mapping[Any, Any]) -> dict[str, Any]:
    """An item whose values are those of JSON; TypeError or ValueError names one that is not.

    Times are text of ISO 8601, as are dates; NaN and infinity are null.
    """
    return {_text(str(name)): plain(value, str(name)) for name, value in item.items()}


def plain(value: Any, path: str, levels: int = _LEVELS) -> Any:
    """Return one value as plain data; ``path`` is its name in errors."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int | float | Decimal):
        return _number(value, path)
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    return str(value) if isinstance(value, UUID) else _nested(value, path, levels - 1)


def _number(value: float | Decimal, path: str) -> int | float | None:
    if isinstance(value, int):
        if not -_BIGGEST <= value < _BIGGEST:
            raise ValueError(f"{path!r} is an integer beyond 64 bits: make it text")
        return int(value)
    return float(value) if math.isfinite(value) else None


def _nested(value: Any, path: str, levels: int) -> Any:
    if levels < 0:
        raise ValueError(f"{path!r} is nested deeper than {_LEVELS} levels")
    if isinstance(value, Mapping):
        return {_text(str(key)): plain(value[key], f"{path}.{key}", levels) for key in value}
    if isinstance(value, list | tuple):
        return [plain(each, path, levels) for each in value]
    if isinstance(value, AbstractSet):
        return sorted((plain(each, path, levels) for each in value), key=repr)
    raise TypeError(f"{path!r} is of the type {type(value).__name__}, which JSON cannot say")


def _text(text: str) -> str:
    """Text that can be encoded: a half of a surrogate pair is U+FFFD."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
