"""Parse any bytes to one JSON object, or refuse them with a reason.

Depth is measured before parsing, because parsers recurse. The standard library parses again what
orjson refuses or would round: so the common case is fast, and the rare one is exact and explained.
The last of two equal keys counts. A UTF-8 byte order mark is skipped.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

from crawlstream.errors import InvalidRequest
from crawlstream.model.request import Refusal, RequestLimits
from crawlstream.wire import jsontext

_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, or an unterminated one; possessive, so that time stays linear."""
_ALL_BUT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def parse_object(raw: bytes | None, limits: RequestLimits) -> dict[str, Any]:
    """Return the object in a record's value; raise InvalidRequest if there is none."""
    if not raw:
        refuse(Refusal.EMPTY)
    if len(raw) > limits.max_bytes:
        refuse(Refusal.TOO_LARGE, f"{len(raw)} bytes; the maximum is {limits.max_bytes}")
    text = raw.removeprefix(jsontext.BYTE_ORDER_MARK)
    if is_deeper(text, limits.max_levels):
        refuse(Refusal.TOO_DEEP, f"the maximum is {limits.max_levels} levels")
    if has_more_values(text, limits.max_values):
        refuse(Refusal.TOO_LARGE, f"more than {limits.max_values} values")
    value = _parse(text)
    if not isinstance(value, dict):
        refuse(Refusal.NOT_AN_OBJECT, f"found {type_name(value)}")
    return value


def refuse(reason: Refusal, detail: str = "") -> NoReturn:
    """Raise the refusal of a whole record, in one sentence."""
    sentence = f"{reason.sentence}: {detail}" if detail else reason.sentence
    raise InvalidRequest(reason, [f"$: {sentence}"])


def is_deeper(text: bytes, levels: int) -> bool:
    """Return whether brackets are nested deeper than ``levels``, also in invalid JSON.

    Takes linear time.
    """
    if text.count(b"[") + text.count(b"{") <= levels:
        return False
    level = 0
    for part in _outside_strings(text):
        for bracket in part.translate(None, _ALL_BUT_BRACKETS):
            level += 1 if bracket in b"[{" else -1
            if level > levels:
                return True
    return False


def has_more_values(text: bytes, most: int) -> bool:
    """Return whether JSON, valid or not, has more than ``most`` values.

    Takes linear time and does not parse: a value of two bytes can take sixty bytes of memory.
    """
    if _marks(text) < most:
        return False
    marks = 0
    for strings, part in enumerate(_outside_strings(text)):
        marks += _marks(part)
        # Each string is a value, or the name of one.
        if marks >= most or strings > 2 * most:
            return True
    return False


def _outside_strings(text: bytes) -> Iterator[bytes]:
    """Yield the text between the strings, part by part, for there may be a million."""
    end = 0
    for string in _STRING.finditer(text):
        if string.start() > end:
            yield text[end : string.start()]
        end = string.end()
    yield text[end:]


def _marks(text: bytes) -> int:
    """Count commas and brackets: at least one for each value except the first."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def type_name(value: object) -> str:
    """Return the JSON type of a value, with its article."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}
    return names.get(type(value)) or (
        "null" if value is None else "an array" if isinstance(value, list) else "an object"
    )


def _parse(text: bytes) -> object:
    try:
        value: object = orjson.loads(text)
    except orjson.JSONDecodeError:
        return _parse_exactly(text)
    return _parse_exactly(text) if jsontext.has_long_number(text) else value


def _parse_exactly(text: bytes) -> object:
    """Parse with the standard library, which explains errors and keeps integers exact."""
    try:
        value: object = json.loads(
            text.decode(), parse_constant=_refuse_number, parse_float=_finite
        )
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        refuse(Refusal.NOT_UTF8, f"invalid byte at position {error.start}")
    except UnicodeEncodeError:
        refuse(Refusal.BAD_TEXT)
    except json.JSONDecodeError as error:
        refuse(Refusal.NOT_JSON, f"{error.msg} at character {error.pos}")
    except ValueError:
        refuse(Refusal.BAD_NUMBER, "an integer with more than 4300 digits")
    return value


def _refuse_number(text: str) -> NoReturn:
    refuse(Refusal.BAD_NUMBER, text[:40])


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        _refuse_number(text)
    return number
