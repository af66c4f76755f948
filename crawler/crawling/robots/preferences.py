"""Preferences of a robots.txt about uses of pages.

``Content-Usage`` and ``Content-Signal`` are for the agents of their group, and may begin with a
path. Of the lines that match a page those with the longest path count, as for rules.
``Content-Usage`` is a rule (draft aipref-attach) and ends the agents above it. A ``License`` is for
everybody wherever it stands (RSL 1.0), and so is a ``Content-Signal`` above all groups.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from crawling.page.statements import (
    CONTENT_SIGNAL,
    CONTENT_USAGE,
    LICENSE,
    Statement,
    signal,
    usage,
)
from crawlstream.errors import InvalidUrl
from crawlstream.model.web.address import address

PREFERENCES = (CONTENT_USAGE, CONTENT_SIGNAL, LICENSE)
_READERS = {CONTENT_USAGE: usage, CONTENT_SIGNAL: signal}
_PATH = re.compile(rb"(/[^ \t]*+)(?:[ \t]++|\Z)(.*)", re.DOTALL)
_ESCAPE = re.compile("%([0-9A-Fa-f]{2})")
_UNRESERVED = re.compile("[A-Za-z0-9._~-]")


class Preference(NamedTuple):
    """A statement about the pages below a path."""

    statement: Statement
    length: int
    """Bytes of its path."""
    pieces: Sequence[str]
    """Texts that a path contains one after the other, the first at its beginning."""
    is_whole: bool
    """True if the last one stands at the end of the path."""

    def covers(self, path: str) -> bool:
        """Return whether it is about a path with its query."""
        first, *others = self.pieces
        if not path.startswith(first):
            return False
        at = len(first)
        for piece in others[:-1] if self.is_whole else others:
            if (found := path.find(piece, at)) < 0:
                return False
            at = found + len(piece)
        if not self.is_whole:
            return True
        return path.endswith(others[-1], at) if others else at == len(path)


def preferences_in(name: str, value: bytes) -> Iterator[Preference]:
    """Yield what a line says, if it can be read."""
    if name == LICENSE:
        try:
            url = address(value.decode("utf-8", "replace"))
        except InvalidUrl:
            return
        yield Preference(Statement("robots", LICENSE, url), 0, ("",), is_whole=False)
        return
    match = _PATH.match(value)
    path, rest = match.groups() if match else (b"/", value)
    for statement in _READERS[name]("robots", rest):
        yield preference(statement, path)


def preference(statement: Statement, path: bytes) -> Preference:
    """Return what a statement about the pages below a path is; ``*`` and ``$`` as in rules."""
    pattern = _plain("".join(map(_octet, path)))
    pieces = pattern.removesuffix("$").split("*")
    return Preference(statement, len(path), pieces, pattern.endswith("$"))


def path_of(url: str) -> str:
    """Return the path of a URL, with its query, as preferences are compared with it."""
    return _plain("/" + url.partition("#")[0].partition("://")[2].partition("/")[2])


def about(url: str, preferences: Iterable[Preference]) -> list[Statement]:
    """Return the statements about a page: of each kind those with the longest path."""
    path = path_of(url)
    found: list[Statement] = []
    matching = [each for each in preferences if each.covers(path)]
    for name in PREFERENCES:
        some = [each for each in matching if each.statement.name == name]
        longest = max((each.length for each in some), default=0)
        found += (each.statement for each in some if each.length == longest)
    return list({(each.name, each.value): each for each in found}.values())


def _octet(byte: int) -> str:
    return chr(byte) if 0x21 <= byte < 0x7F else f"%{byte:02X}"


def _plain(path: str) -> str:
    """Return a path whose escapes have one form."""
    return _ESCAPE.sub(_escape, path) if "%" in path else path


def _escape(found: re.Match[str]) -> str:
    character = chr(int(found[1], 16))
    return character if _UNRESERVED.fullmatch(character) else found[0].upper()
