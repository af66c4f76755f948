"""Write and read JSON, exactly where orjson is not exact; writing never fails.

orjson is fast, but it reads integers beyond 64 bits as floats and refuses to write them. Clients
may put such numbers into ``attrs`` and get them back unchanged.
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
"""Number of digits that may overflow 64 bits; orjson would round such a number."""

_MAX_LEVELS = 250
"""Maximum nesting that is written; the limit of requests is much smaller."""


def dumps(value: object, *, sort_keys: bool = False, indent: bool = False) -> bytes:
    """Return any value as UTF-8 JSON.

    Values that JSON cannot express are replaced: NaN, Infinity and values deeper than 250 levels by
    null, a lone surrogate by ``?``, bytes and objects by text.
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
    """Return the value of JSON, with exact integers of up to 4300 digits.

    A byte order mark is ignored. Raise ValueError if it is not JSON.
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
    """Return whether a number may not fit into 64 bits (also true for digits in a string)."""
    return _LONG_NUMBER in raw.translate(_ZEROED)


def _plain(value: object, levels: int) -> object:
    """Return the closest value that JSON can express."""
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
