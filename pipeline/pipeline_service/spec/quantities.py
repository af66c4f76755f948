"""Values of the file of the pipelines: read as people write them, or refused in a sentence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from crawlstream.errors import ConfigError

_BYTES = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9}
_BYTES |= {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600}
_DURATIONS = _SECONDS | {"d": 86_400}
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?) ?([A-Za-z]*)")


def known(table: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise ConfigError for an unknown key."""
    for key in table:
        if key not in names:
            raise ConfigError(f"{where}: unknown key {key!r}; known: {', '.join(names)}")


def table(value: Any, where: str) -> dict[str, Any]:
    """A table; ConfigError."""
    if not isinstance(value, dict):
        raise ConfigError(f"{where}: expected a table")
    return value


def text(value: Any, where: str) -> str:
    """Text that is not empty; ConfigError."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{where}: expected text")
    return value


def flag(value: Any, where: str) -> bool:
    """``true`` or ``false``; ConfigError."""
    if not isinstance(value, bool):
        raise ConfigError(f"{where}: expected true or false")
    return value


def whole(least: int, most: int) -> Callable[[Any, str], int]:
    """A reader of integers within bounds."""

    def read_whole(value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ConfigError(f"{where}: expected an integer from {least} to {most}")
        return value

    return read_whole


def one_of(words: Sequence[str]) -> Callable[[Any, str], str]:
    """A reader of one of some words."""

    def read_word(value: Any, where: str) -> str:
        if value not in words:
            raise ConfigError(f"{where}: expected one of {', '.join(words)}")
        return str(value)

    return read_word


def some_of(words: Sequence[str]) -> Callable[[Any, str], Sequence[str]]:
    """Return a reader of a list of different words, each one of some."""

    def read_words(value: Any, where: str) -> Sequence[str]:
        is_list = isinstance(value, list) and len(set(map(str, value))) == len(value)
        if not is_list or not all(each in words for each in value):
            raise ConfigError(f"{where}: expected a list of {', '.join(words)}")
        return tuple(value)

    return read_words


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


def read_duration(value: Any, where: str, *, least: float, most: float) -> float:
    """Seconds, hours or days; ConfigError."""
    found = _read(value, _DURATIONS)
    if found is None or not least <= found <= most:
        raise ConfigError(
            f"{where}: expected a duration from {least:.0f} seconds to {most / 86_400:.0f} days,"
            ' such as "90m", "12h" or "7d"'
        )
    return found


def _read(value: Any, units: Mapping[str, int]) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _QUANTITY.fullmatch(str(value))
    if found is None or found[2] not in units:
        return None
    return float(found[1]) * units[found[2]]


def filled(value: Any, where: str, environment: Mapping[str, str]) -> Any:
    """A value in which every ``${NAME}`` is that variable's value."""
    if isinstance(value, dict):
        return {key: filled(value[key], f"{where}.{key}", environment) for key in value}
    if isinstance(value, list):
        return [filled(each, where, environment) for each in value]
    if not isinstance(value, str):
        return value

    def variable(found: re.Match[str]) -> str:
        if found[1] not in environment:
            raise ConfigError(f"{where}: the environment variable {found[1]} is not set")
        return environment[found[1]]

    return _VARIABLE.sub(variable, value)
