"""Packed values and their parts: numbers that may be missing, names, texts, pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import msgpack  # type: ignore[import-untyped]

from crawlstream.model.crawl import CrawlKey


def pack(value: object) -> bytes:
    """Pack arguments for Lua."""
    return cast(bytes, msgpack.packb(value, use_bin_type=False))


def unpack(answer: object) -> Any:
    """Unpack an answer from Lua; text arrives as bytes."""
    return msgpack.unpackb(cast(bytes, answer), raw=True, strict_map_key=False)


def unpack_text(answer: object) -> Any:
    """Unpack an answer from Lua that has only text, as ``str``."""
    return msgpack.unpackb(cast(bytes, answer), raw=False)


def mapping(value: Any) -> Mapping[Any, Any]:
    """Return a Lua table as a mapping; an empty table arrives as a list."""
    return value if isinstance(value, dict) else {}


def none_as(value: int | None) -> int:
    """Return a number for Lua; -1 if it is missing."""
    return -1 if value is None else value


def crawl_from(name: bytes) -> CrawlKey:
    """Return the crawl of a name that ``FrontierKeys.crawl_field`` has written."""
    return CrawlKey(*map(unquote, name.decode().split(":")))


def texts(items: Iterable[bytes]) -> frozenset[str]:
    """Return the distinct texts of an answer, such as tokens."""
    return frozenset(item.decode() for item in items)


def pairs(flat: Sequence[bytes]) -> dict[str, str]:
    """Return the fields of a flat list of fields and values, as HGETALL returns it."""
    parts = [part.decode() for part in flat]
    return dict(zip(parts[::2], parts[1::2], strict=True))
