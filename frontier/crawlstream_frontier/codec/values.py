"""Packed values and what stands in them: numbers that may be missing, names, texts, pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast
from urllib.parse import unquote

import msgpack  # type: ignore[import-untyped]

from crawlstream.model.crawl import CrawlKey


def pack(value: object) -> bytes:
    """Arguments for Lua."""
    return cast(bytes, msgpack.packb(value, use_bin_type=False))


def unpack(answer: object) -> Any:
    """An answer from Lua; text arrives as bytes."""
    return msgpack.unpackb(cast(bytes, answer), raw=True, strict_map_key=False)


def unpack_text(answer: object) -> Any:
    """An answer from Lua that holds text only, which arrives as such."""
    return msgpack.unpackb(cast(bytes, answer), raw=False)


def mapping(value: Any) -> Mapping[Any, Any]:
    """A Lua table used as a map; an empty one arrives as a list."""
    return value if isinstance(value, dict) else {}


def none_as(value: int | None) -> int:
    """A number that may be missing, for Lua."""
    return -1 if value is None else value


def crawl_from(name: bytes) -> CrawlKey:
    """The crawl that a name written by ``FrontierKeys.crawl_field`` stands for."""
    return CrawlKey(*map(unquote, name.decode().split(":")))


def texts(items: Iterable[bytes]) -> frozenset[str]:
    """Distinct texts of an answer, such as tokens."""
    return frozenset(item.decode() for item in items)


def pairs(flat: Sequence[bytes]) -> dict[str, str]:
    """A flat list of fields and values, as HGETALL gives it."""
    parts = [part.decode() for part in flat]
    return dict(zip(parts[::2], parts[1::2], strict=True))
