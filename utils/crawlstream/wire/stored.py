"""Encode entries and profiles for Redis: there are millions of entries, so every byte counts.

Entry
    version, flags, depth, [shared prefix, shared suffix, length of the parent's rest],
    [length of the extras, extras], text. The text is the rest of the parent's URL, then the URL
    without its scheme. Of the parent, only the part is stored that it does not share with the URL
    at both ends. The text takes 6 bits per character if its characters allow it. Fields that few
    entries have are JSON. Lengths are varints.
Profile
    version, then JSON of the fields that differ from their default, keys sorted: equal profiles
    are equal bytes.

The version byte comes first. Any other version is refused.
"""

from __future__ import annotations

import re
from binascii import a2b_base64, b2a_base64
from collections.abc import Mapping
from dataclasses import MISSING, fields
from functools import lru_cache
from operator import attrgetter
from typing import Any

from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.web.priority_fields import rule_fields, rule_of_fields
from crawlstream.model.web.url_parameters import parameter_fields, parameters_in
from crawlstream.wire import jsontext

_VERSION = 1

_SCHEMES = ("", "http://", "https://")
_SCHEME_BITS = 0b0011
_HAS_PARENT = 0b0100
_IS_PACKED = 0b1000
_HAS_EXTRAS = 0b10000

_SHIFT = b"^"
"""Prefix of a lower-case letter that stands for its capital; canonical URLs never contain it."""

_BASE64 = b"BCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SYMBOLS = b"abcdefghijklmnopqrstuvwxyz0123456789ABCDEF/.-_?=&%:~+,;@!()*#'" + _SHIFT
"""Characters that six bits encode; 0 means the end. A to F are for percent-encoded bytes."""

_PACK = bytes.maketrans(_SYMBOLS, _BASE64)
_UNPACK = bytes.maketrans(b"A" + _BASE64, b"\0" + _SYMBOLS)
_PLAIN = _SYMBOLS.replace(_SHIFT, b"")
_RARE_CAPITAL = re.compile(rb"[G-Z]")
_RARE_CAPITALS = re.compile(rb"[G-Z]+")
_SHIFTED = re.compile(rb"\^([a-z])")

_SHORT_PARENT = 512
"""Maximum bytes of a parent URL that :class:`LinkEncoder` caches; longer ones take much memory."""

_EXTRAS = {
    "origin": "o",
    "redirect_urls": "r",
    "callback": "c",
    "method": "v",
    "headers": "h",
    "body": "b",  # text; a body that is not UTF-8 is stored as "B", in base64
    "cookies": "k",
    "meta": "m",
    "salt": "s",
}
_EXTRA_NAMES = {letter: name for name, letter in _EXTRAS.items()} | {"B": "body", "t": "moved_to"}

_IN_META = {"moved_to": "@moved_to", "trace": "@trace"}
"""Fields that ``meta`` stores, with their keys: versions without them read the entry, too.

For some time ``moved_to`` was stored as "t", which they refuse."""


def _defaults(cls: type[Entry | Profile]) -> Mapping[str, Any]:
    """Return defaults by field name, for the fields that have one."""
    return {
        f.name: f.default if f.default_factory is MISSING else f.default_factory()
        for f in fields(cls)
        if f.default is not MISSING or f.default_factory is not MISSING
    }


_ENTRY_DEFAULTS = _defaults(Entry)
_RARE = (*_EXTRAS, *_IN_META)
_RARE_DEFAULTS = tuple(_ENTRY_DEFAULTS[name] for name in _RARE)
_rare = attrgetter(*_RARE)
_PROFILE_DEFAULTS = _defaults(Profile)


def encode_entry(entry: Entry) -> bytes:
    """Encode an entry: about 3 bytes plus 3/4 of its URL, a little more with a parent."""
    extras = b""
    if _rare(entry) != _RARE_DEFAULTS:
        extras = jsontext.dumps(_extras_of(entry))
    parent = None if entry.parent_url is None else entry.parent_url.encode()
    return _encode(entry.url.encode(), entry.depth, parent, extras)


class LinkEncoder:
    """Faster ``encode_entry`` for entries with only URL, depth and parent, which most are.

    Values that the links of a page share are computed once.
    """

    __slots__ = ("_depth", "_extras", "_firsts", "_is_short", "_lasts", "_parent")

    def __init__(self, depth: int, parent: bytes, moved_to: str | None = None) -> None:
        """Take the URL of the page as ``parent``; all links have the same ``moved_to``."""
        self._depth = depth
        self._parent = parent
        self._extras = short_extras(None, moved_to)
        self._is_short = depth < 0x80 and len(parent) <= _SHORT_PARENT and not self._extras
        self._firsts: dict[int, int] = {}
        self._lasts: dict[int, int] = {}
        """Numbers of the parent's first (``_firsts``) and last bytes, by count of bytes."""

    def encode(self, link: str) -> bytes:
        """Encode a link by its URL."""
        url, parent = link.encode(), self._parent
        if not self._is_short:
            return _encode(url, self._depth, parent, self._extras)
        most = min(len(url), len(parent))
        first = self._firsts.get(most)
        if first is None:
            first = self._firsts[most] = int.from_bytes(parent[:most], "big")
        difference = first ^ int.from_bytes(url[:most], "big")
        prefix = most - (difference.bit_length() + 7) // 8
        most -= prefix
        last = self._lasts.get(most)
        if last is None:
            last = self._lasts[most] = int.from_bytes(parent[len(parent) - most :], "little")
        difference = last ^ int.from_bytes(url[len(url) - most :], "little")
        suffix = most - (difference.bit_length() + 7) // 8
        rest = parent[prefix : len(parent) - suffix]
        if prefix > 0x7F or suffix > 0x7F or len(rest) > 0x7F:
            return _encode(url, self._depth, parent)
        scheme = 1 if url.startswith(b"http://") else 2 if url.startswith(b"https://") else 0
        text = rest + url[len(_SCHEMES[scheme]) :]
        packed = _pack(text)
        flags = scheme | _HAS_PARENT if packed is None else scheme | _HAS_PARENT | _IS_PACKED
        head = bytes((_VERSION, flags, self._depth, prefix, suffix, len(rest)))
        return head + (text if packed is None else packed)


def encode_version(link: str, depth: int, parent: bytes, extras: bytes) -> bytes:
    """Encode an entry with at most these ``short_extras``, in half of ``encode_entry``'s time."""
    return _encode(link.encode(), depth, parent, extras)


@lru_cache(1_000)
def short_extras(salt: str | None, moved_to: str | None) -> bytes:
    """Return the rare fields of entries that have no others."""
    extras = _extras_of(Entry(url="", salt=salt, moved_to=moved_to))
    return jsontext.dumps(extras) if extras else b""


def encode_seed(url: str, origin: str) -> bytes:
    """Return ``encode_entry(Entry(url=url, origin=origin))``, in a third of the time.

    Nearly all records of a feed are such entries; ``url`` is absolute, http or https.
    """
    scheme, text = (1, url[7:]) if url.startswith("http://") else (2, url[8:])
    extras = b'{"o":%b}' % jsontext.dumps(origin)
    head = bytearray((_VERSION, scheme | _HAS_EXTRAS, 0))
    _add_varint(head, len(extras))
    head += extras
    packed = _pack(text.encode())
    if packed is None:
        return bytes(head) + text.encode()
    head[1] |= _IS_PACKED
    return bytes(head) + packed


def decode_entry(body: bytes) -> Entry:
    """Return the entry of a result of :func:`encode_entry`; raise ValueError for other bytes."""
    _check_version(body, "entry")
    try:
        return _decode_entry(body)
    except (IndexError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"not a stored entry: {body[:40]!r}") from error


def split_text(body: bytes) -> tuple[bytes, bytes]:
    """Split an entry: return the part before its text, and its text with a byte per character.

    Raise ValueError if it is not an entry.
    """
    _check_version(body, "entry")
    try:
        at = _text_at(body)
    except IndexError as error:
        raise ValueError(f"not a stored entry: {body[:40]!r}") from error
    text = body[at:]
    return body[:at], _unpack(text) if body[1] & _IS_PACKED else text


def join_text(head: bytes, text: bytes) -> bytes:
    """Return the entry of a result of ``split_text``; raise ValueError if there is none."""
    packed = _pack(text) if head[1] & _IS_PACKED else text
    if packed is None:
        raise ValueError(f"not the text of a stored entry: {text[:40]!r}")
    return head + packed


def encode_profile(profile: Profile) -> bytes:
    """Encode a profile; equal profiles are equal bytes."""
    values = {
        name: value
        for name, default in _PROFILE_DEFAULTS.items()
        if (value := getattr(profile, name)) != default
    }
    if profile.priorities:
        values["priorities"] = [rule_fields(rule) for rule in profile.priorities]
    if profile.parameters:
        values["parameters"] = parameter_fields(profile.parameters)
    return bytes((_VERSION,)) + jsontext.dumps(values, sort_keys=True)


def decode_profile(body: bytes) -> Profile:
    """Return the profile of a result of :func:`encode_profile`; raise ValueError for others."""
    _check_version(body, "profile")
    try:
        stored: Any = jsontext.loads(body[1:])
        values: dict[str, Any] = {name: _tupled(value) for name, value in stored.items()}
        if rules := values.get("priorities"):
            values["priorities"] = tuple(map(rule_of_fields, rules))
        if names := values.get("parameters"):
            values["parameters"] = parameters_in(names)
        return Profile(**values)
    except (TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"not a stored profile: {body[:40]!r}") from error


def _encode(url: bytes, depth: int, parent: bytes | None, extras: bytes = b"") -> bytes:
    scheme = 1 if url.startswith(b"http://") else 2 if url.startswith(b"https://") else 0
    text = url[len(_SCHEMES[scheme]) :]
    head = bytearray((_VERSION, scheme))
    numbers: tuple[int, ...] = (depth,)
    if parent is not None:
        head[1] |= _HAS_PARENT
        prefix, suffix, rest = _unshared(parent, url)
        numbers = (depth, prefix, suffix, len(rest))
        text = rest + text
    if max(numbers) < 0x80:
        head += bytes(numbers)
    else:
        for number in numbers:
            _add_varint(head, number)
    if extras:
        head[1] |= _HAS_EXTRAS
        _add_varint(head, len(extras))
        head += extras
    packed = _pack(text)
    if packed is None:
        return bytes(head) + text
    head[1] |= _IS_PACKED
    return bytes(head) + packed


def _decode_entry(body: bytes) -> Entry:
    flags = body[1]
    if flags >= _HAS_EXTRAS << 1:
        raise ValueError("unknown flags")
    depth, at = _read_varint(body, 2)
    prefix = suffix = rest_length = 0
    if flags & _HAS_PARENT:
        prefix, at = _read_varint(body, at)
        suffix, at = _read_varint(body, at)
        rest_length, at = _read_varint(body, at)
    values: dict[str, Any] = {}
    if flags & _HAS_EXTRAS:
        length, at = _read_varint(body, at)
        extras: Any = jsontext.loads(body[at : at + length])
        values = {_EXTRA_NAMES[letter]: _tupled(value) for letter, value in extras.items()}
        if (text := values.get("body")) is not None:
            values["body"] = a2b_base64(text) if "B" in extras else text.encode()
        if meta := values.get("meta"):
            values |= {name: meta.pop(key) for name, key in _IN_META.items() if key in meta}
        at += length
    text = _unpack(body[at:]) if flags & _IS_PACKED else body[at:]
    url = _SCHEMES[flags & _SCHEME_BITS].encode() + text[rest_length:]
    if flags & _HAS_PARENT:
        if rest_length > len(text) or prefix + suffix > len(url):
            raise ValueError("inconsistent lengths")
        parent = url[:prefix] + text[:rest_length] + url[len(url) - suffix :]
        values["parent_url"] = parent.decode()
    return Entry(url=url.decode(), depth=depth, **values)


def _text_at(body: bytes) -> int:
    """Return the position at which the text of an entry begins."""
    _, at = _read_varint(body, 2)
    if body[1] & _HAS_PARENT:
        for _ in range(3):
            _, at = _read_varint(body, at)
    if body[1] & _HAS_EXTRAS:
        length, at = _read_varint(body, at)
        at += length
    return at


def _check_version(body: bytes, what: str) -> None:
    if not body or body[0] != _VERSION:
        found = body[0] if body else "no bytes"
        raise ValueError(f"not a stored {what} of version {_VERSION}: {found}")


def _extras_of(entry: Entry) -> dict[str, object]:
    """Return the fields that few entries have, by letter."""
    values = zip(_EXTRAS.values(), _rare(entry), _RARE_DEFAULTS, strict=False)
    extras = {letter: value for letter, value, default in values if value != default}
    if entry.moved_to is not None or entry.trace is not None:
        kept = {key: getattr(entry, name) for name, key in _IN_META.items()}
        extras["m"] = {**entry.meta, **{k: v for k, v in kept.items() if v is not None}}
    if isinstance(body := extras.get("b"), bytes):
        try:
            extras["b"] = body.decode()
        except UnicodeDecodeError:
            extras["B"] = b2a_base64(extras.pop("b"), newline=False).decode()
    return extras


def _tupled(value: object) -> object:
    """Convert a list to a tuple: JSON only has lists."""
    return tuple(value) if isinstance(value, list) else value


def _unshared(parent: bytes, url: bytes) -> tuple[int, int, bytes]:
    """Return the lengths of the common prefix and suffix, and the rest of ``parent``.

    The bytes are compared as numbers, whose exclusive-or begins at the first difference: no loop.
    """
    number = int.from_bytes
    most = min(len(parent), len(url))
    difference = number(parent[:most], "big") ^ number(url[:most], "big")
    prefix = most - (difference.bit_length() + 7) // 8
    most -= prefix
    left, right = parent[len(parent) - most :], url[len(url) - most :]
    difference = number(left, "little") ^ number(right, "little")
    suffix = most - (difference.bit_length() + 7) // 8
    return prefix, suffix, parent[prefix : len(parent) - suffix]


def _pack(text: bytes) -> bytes | None:
    """Encode text in six bits per character; None if that is impossible or not shorter."""
    if others := text.translate(None, _PLAIN):
        if not _RARE_CAPITALS.fullmatch(others) or len(text) < 3 * len(others):
            return None
        text = _RARE_CAPITAL.sub(lambda capital: _SHIFT + capital[0].lower(), text)
    sextets = text.translate(_PACK) + b"A" * (-len(text) % 4)
    return a2b_base64(sextets).rstrip(b"\0")


def _unpack(packed: bytes) -> bytes:
    octets = packed + b"\0" * (-len(packed) % 3)
    text = b2a_base64(octets, newline=False).translate(_UNPACK).rstrip(b"\0")
    if _SHIFT not in text:
        return text
    return _SHIFTED.sub(lambda letter: letter[1].upper(), text)


def _add_varint(target: bytearray, number: int) -> None:
    """Append a number, seven bits per byte, lowest first; the top bit means that more follow."""
    while number >= 0x80:
        target.append(number & 0x7F | 0x80)
        number >>= 7
    target.append(number)


def _read_varint(body: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, and the position after it."""
    number = shift = 0
    while True:
        byte = body[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at
