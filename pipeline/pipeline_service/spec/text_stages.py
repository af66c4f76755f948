"""Options of the stages that read texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from crawlstream.errors import ConfigError
from pipeline_service.spec.quantities import flag, known, one_of, text, whole

Readers = Mapping[str, tuple[Any, Callable[[Any, str], Any]]]
"""By the name of an option: its default, and the function that reads a value."""
TRAFILATURA, RESILIPARSE = "trafilatura", "resiliparse"
"""Engines of the stage ``text``."""
_MINHASH_VERSION = "1"
"""Changed with the values that ``crawlstream_extract.minhash`` makes of a text."""
_BANDS = (8, 16, 32)
_CODE = re.compile(r"[a-z]{2,3}\Z")


def read_options(options: Mapping[str, Any], readers: Readers, where: str) -> Mapping[str, Any]:
    """Return all options of a stage; ConfigError."""
    known(options, tuple(readers), where)
    return {
        name: read(options[name], f"{where}.{name}") if name in options else default
        for name, (default, read) in readers.items()
    }


def read_text(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    """Options of the stage ``text``; two of them are of one engine only."""
    made = read_options(options, _TEXT, where)
    if made["engine"] == RESILIPARSE and (others := {"format", "fast"}.intersection(options)):
        raise ConfigError(f"{where}.{min(others)}: the engine {RESILIPARSE} has no such option")
    return made


def _format(value: Any, where: str) -> str:
    if value not in ("txt", "markdown"):
        raise ConfigError(f'{where}: expected "txt" or "markdown"')
    return str(value)


def read_language(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    """Options of the stage ``language``; the model knows which codes there are."""
    return read_options(options, _LANGUAGE, where)


def read_document(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    """Options of the stage ``document``."""
    return read_options(options, _DOCUMENT, where)


def read_minhash(options: dict[str, Any], where: str, _: Path) -> Mapping[str, Any]:
    """Options of the stage ``minhash``."""
    return read_options(options, _MINHASH, where)


def minhash_version(options: Mapping[str, Any]) -> str:
    """Return what two values of ``minhash`` have in common if they can be compared."""
    return " ".join((_MINHASH_VERSION, *(f"{name}={options[name]}" for name in _MINHASH)))


def read_codes(value: Any, where: str) -> list[str]:
    """Return a list of codes of languages; ConfigError."""
    is_list = isinstance(value, list) and value
    if not is_list or not all(isinstance(each, str) and _CODE.match(each) for each in value):
        raise ConfigError(f'{where}: expected a list of ISO 639 codes, such as ["de", "en"]')
    return list(value)


def _bands(value: Any, where: str) -> int:
    if isinstance(value, bool) or value not in _BANDS:
        raise ConfigError(f"{where}: expected one of {', '.join(map(str, _BANDS))}")
    return int(value)


def _share(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ConfigError(f"{where}: expected a number from 0 to 1")
    return float(value)


_TEXT: Readers = {
    "format": ("txt", _format),
    "fast": (False, flag),
    "engine": (TRAFILATURA, one_of((TRAFILATURA, RESILIPARSE))),
}
_LANGUAGE: Readers = {"languages": ([], read_codes), "least": (0.5, _share), "of": ("", text)}
_MINHASH: Readers = {"words": (3, whole(1, 10)), "bands": (16, _bands), "of": ("", text)}
_DOCUMENT: Readers = {
    "max_pages": (500, whole(1, 10_000)),
    "max_chars": (1_000_000, whole(1_000, 1_000_000)),
}
