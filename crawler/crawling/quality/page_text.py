"""Text of a page as a set of text nodes: equal for equal lists in another order.

White space does not count, and no number that the page's own address has: the empty months of a
calendar are equal, and tables of numbers are not.

The hash is one of all nodes together. A combination of their checksums would not do: by ``crc32``
and exclusive or, the nodes ``S10 M20`` and ``S20 M10`` are equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from hashlib import blake2b
from urllib.parse import unquote

MOST_CHARACTERS = 1 << 16
"""Characters of different nodes that count, from the beginning of the page."""

_BORDER = "\x01"
"""Separates nodes. In a page it does so, too."""
_SPACES = b" \t\n\r\f"
_MASK = "#"
_MOST_NUMBERS = 8
"""Different numbers of an address that count."""
_MOST_WORDS = 16
"""Different words of an address that count."""
_AFTER_HOST = re.compile(r"[^:]*://[^/?#]*([^#]*)")
_ESCAPE = re.compile("%[0-9A-Fa-f]{2}")
_NUMBER = re.compile("[0-9]+")
_WORD = re.compile(r"[^\W\d_]{4,}")
_NO_LETTERS = re.compile(rf"[^\w{_BORDER}]|[\d_]")


class PageText:
    """Visible text of one page."""

    def __init__(self, nodes: Iterable[str], url: str) -> None:
        """``nodes`` are in the order of the page, and ``url`` is its address."""
        self._raw = _BORDER.join(dict.fromkeys(nodes))[:MOST_CHARACTERS]
        self._address = _after_host(url)

    @cached_property
    def nodes(self) -> list[str]:
        """Different nodes that count, sorted; each as Latin-1 of its UTF-8. Empty: no text."""
        masked = _without_numbers(self._raw, self._address)
        packed = masked.encode("utf-8", "replace").translate(None, _SPACES)
        nodes = set(packed.decode("latin-1").split(_BORDER))
        nodes.discard("")
        return sorted(nodes)

    @cached_property
    def signature(self) -> int:
        """64 bits."""
        return _hash_of(self.nodes)

    @property
    def text(self) -> int:
        """32 bits of the signature."""
        return self.signature >> 32

    @cached_property
    def bare(self) -> int:
        """32 bits of the letters of all nodes, in lower case, without words of the own address.

        Pages that differ only in what they repeat of their address have the same.
        """
        letters = self._raw.lower()
        words = dict.fromkeys(_WORD.findall(unquote(self._address).lower()))
        for word in sorted(list(words)[:_MOST_WORDS], key=len, reverse=True):
            letters = letters.replace(word, "")
        nodes = set(_NO_LETTERS.sub("", letters).split(_BORDER))
        nodes.discard("")
        packed = (node.encode("utf-8", "replace").decode("latin-1") for node in nodes)
        return _hash_of(sorted(packed)) >> 32


def _hash_of(nodes: list[str]) -> int:
    packed = _BORDER.join(nodes).encode("latin-1")
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "big")


def _after_host(url: str) -> str:
    match = _AFTER_HOST.match(url)
    return match[1] if match else ""


def _without_numbers(text: str, address: str) -> str:
    """Return text with a mask for each number that is in an address, too."""
    numbers = dict.fromkeys(_NUMBER.findall(_ESCAPE.sub(" ", address)))
    for number in list(numbers)[:_MOST_NUMBERS]:
        text = _masked(text, number)
    return text


def _masked(text: str, number: str) -> str:
    """Return text with a mask for each occurrence of a number that is not a part of another."""
    at = text.find(number)
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
        at = text.find(number, after)
    pieces.append(text[begin:])
    return "".join(pieces)
