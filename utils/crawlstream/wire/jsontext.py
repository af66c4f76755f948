"""JSON out of values and back, exact where orjson is not, and never failing on the way out.

orjson is fast but turns integers beyond 64 bits into floats when it reads them and refuses them
when it writes them. Clients may put such numbers into ``attrs`` and get them back unharmed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_ZEROED = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""Digits enough to overflow 64 bits; orjson would round such a number."""

_MAX_LEVELS = 250
"""Nesting that is written; requests are admitted with far less."""


def dumps(value: object, *, sort_keys: bool = False, indent: bool = False) -> bytes:
    """UTF-8 JSON of any value.

    What JSON cannot say becomes what comes closest: NaN and Infinity null, a lone surrogate ``?``,
    bytes and objects text, and what lies deeper than 250 levels null.
    """
    try:
        options = sort_keys * orjson.OPT_SORT_KEYS | indent * orjson.OPT_INDENT_2
        return orjson.dumps(value, option=options)
    except TypeError:
        plain = _plain(value, _MAX_LEVELS)
        shape: dict[str, Any] = {"indent": 2} if indent else {"separators": (",", ":")}
        text = json.dumps(plain, ensure_ascii=False, sort_keys=sort_keys, **shape)
        return text.encode()


def loads(raw: bytes) -> object:
    """The value of JSON with every digit of its integers, up to 4300; ValueError if it is none.

    A byte order mark before it is ignored.
    """
    raw = raw.removeprefix(BYTE_ORDER_MARK)
    if has_long_number(raw):
        try:
            value: object = json.loads(raw)
        except RecursionError as error:
            raise ValueError("nested too deeply") from error
        return value
    return orjson.loads(raw)


def has_long_number(raw: bytes) -> bool:
    """Whether a number in there might not fit 64 bits (also true for digits inside a string)."""
    return _LONG_NUMBER in raw.translate(_ZEROED)


def _plain(value: object, levels: int) -> object:
    """The nearest value that JSON can say."""
    if isinstance(value, str | bytes) or not isinstance(value, Iterable):
        return _plain_scalar(value)
    if levels == 0:
        return None
    if isinstance(value, Mapping):
        return {str(_plain_scalar(k)): _plain(v, levels - 1) for k, v in value.items()}
    return [_plain(item, levels - 1) for item in value]


def _plain_scalar(value: object) -> object:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value).encode("utf-8", "replace").decode()
