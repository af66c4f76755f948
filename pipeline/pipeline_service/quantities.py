"""Sizes and durations as people write them: a number, or a number and its unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from crawlstream.errors import ConfigError

_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")


def read_bytes(value: Any, where: str, *, least: int) -> int:
    """Bytes; ConfigError."""
    found = _read(value, _BYTES)
    if found is None or found < least:
        raise ConfigError(f'{where}: expected a size from {least} bytes on, such as "256 MiB"')
    return int(found)


def read_seconds(value: Any, where: str, *, least: float, most: float) -> float:
    """Seconds; ConfigError."""
    found = _read(value, _SECONDS)
    if found is None or not least <= found <= most:
        raise ConfigError(
            f'{where}: expected a duration from {least:.0f} to {most:.0f} seconds, such as "15m"'
        )
    return found


def _read(value: Any, units: Mapping[str, int]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _QUANTITY.fullmatch(str(value))
    if found is None or found[2] not in units:
        return None
    return float(found[1]) * units[found[2]]
