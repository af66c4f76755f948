"""Text of a page as a set of text nodes: equal for equal lists in another order.

White space does not count, and no number that the page's own address has: the empty months of a
calendar are equal, and tables of numbers are not.

The hash is one of all nodes together. A combination of their checksums would not do: by ``crc32``
and exclusive or, the nodes ``S10 M20`` and ``S20 M10`` are equal.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from hashlib import blake2b

MOST_CHARACTERS = 1 << 16
"""Characters of different nodes that count, from the beginning of the page."""

_BORDER = "\x01"
"""Separates nodes. In a page it does so, too."""
_BORDER_BYTES = _BORDER.encode()
_SPACES = b" \t\n\r\f"
_MASK = "#"
_MOST_NUMBERS = 8
"""Different numbers of an address that count."""
_RARE = 16
"""Digits of a text that are looked at one by one: one character is found faster than several."""
_AFTER_HOST = re.compile(r"[^:]*://[^/?#]*([^#]*)")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_NUMBER = re.compile("[0-9]+")


def signature_of(nodes: Sequence[str], url: str, hidden: Collection[str] = ()) -> int | None:
    """Return 64 bits for the text of a page at ``url``; None if it has no text.

    ``nodes`` are in the order of the page. ``hidden``: texts of scripts and styles; visible text
    that equals one is left out, too.
    """
    text = _BORDER.join(set(nodes).difference(hidden) if hidden else nodes)
    if len(text) > MOST_CHARACTERS:  # Then their order counts.
        visible = [node for node in dict.fromkeys(nodes) if node not in hidden]
        text = _BORDER.join(visible)[:MOST_CHARACTERS]
    masked = _without_numbers(text, _after_host(url))
    packed = masked.encode("utf-8", "replace").translate(None, _SPACES)
    different = set(packed.split(_BORDER_BYTES))
    different.discard(b"")
    if not different:
        return None
    digest = blake2b(_BORDER_BYTES.join(sorted(different)), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def _after_host(url: str) -> str:
    match = _AFTER_HOST.match(url)
    return match[1] if match else ""


def _without_numbers(text: str, address: str) -> str:
    """Return text with a mask for each number that is in an address, too."""
    if "%" in address:
        address = _ESCAPE.sub(" ", address)
    numbers = dict.fromkeys(_NUMBER.findall(address))
    for number in list(numbers)[:_MOST_NUMBERS]:
        text = _masked(text, number)
    return text


def _masked(text: str, number: str) -> str:
    """Return text with a mask for each occurrence of a number that is not a part of another."""
    at = _found(text, number, 0)
    if at < 0:
        return text
    pieces: list[str] = []
    size, end, begin = len(number), len(text), 0
    while at >= 0:
        after = at + size
        is_part = text[at - 1 : at].isdecimal() or (after < end and text[after].isdecimal())
        if not is_part:
            pieces += text[begin:at], _MASK
            begin = after
        at = _found(text, number, after)
    pieces.append(text[begin:])
    return "".join(pieces)


def _found(text: str, number: str, at: int) -> int:
    """Return ``text.find(number, at)``: sooner where its first digit is rare."""
    for _ in range(_RARE):
        at = text.find(number[0], at)
        if at < 0 or text.startswith(number, at):
            return at
        at += 1
    return text.find(number, at)
