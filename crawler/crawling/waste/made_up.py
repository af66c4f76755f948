"""Made-up neighbours: URLs that no page links to, of the same family as two that were seen."""

from __future__ import annotations

import random
import re
from string import ascii_lowercase

from crawling.quality.family import PARAMETER, families_of

_LETTERS = 9
"""Letters of a word that no site knows."""
_NUMBER = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])\d+")
"""A number that is not part of an escape."""
_FAR, _BEYOND = 1000, 7007
"""A number far beyond: one a little beyond may be that of a page."""
_PARTS = re.compile(r"([^:]*://[^/?#]*)([^?#]*)(?:\?([^#]*))?")


def nonsense() -> str:
    """Return a word that no site knows."""
    return "".join(random.choices(ascii_lowercase, k=_LETTERS))  # noqa: S311  no secret


def beside(url: str, word: str) -> str | None:
    """Return the address of no page next to one: its path ends with a word, without a query."""
    match = _PARTS.fullmatch(url)
    return match[1] + _ending(match[2], word) if match else None


def made_up(family: str, first: str, latest: str, word: str) -> str | None:
    """Return a neighbour of two addresses of a family; None if none of it can be made up.

    A parameter has the value ``word``. Paths are mixed at the second segment that differs; where
    they cannot be, numbers of the last segment are far beyond, or it ends with ``word``.
    """
    match = _PARTS.fullmatch(latest)
    if match is None:
        return None
    origin, path, query = match.groups()
    if family.startswith(PARAMETER):
        found = f"{origin}{path}?{_with_value(query or '', family[1:], word)}"
    else:
        found = origin + (_mixed(_path_of(first), path) or _beyond(path, word))
    return found if found != latest and family in families_of(found, "") else None


def _path_of(url: str) -> str:
    match = _PARTS.fullmatch(url)
    return match[2] if match else ""


def _with_value(query: str, name: str, word: str) -> str:
    """Return a query with a word as the value of a parameter."""
    arguments = []
    for argument in query.split("&"):
        key, equals, _value = argument.partition("=")
        arguments.append(f"{key}={word}" if equals and key == name else argument)
    return "&".join(arguments)


def _mixed(first: str, latest: str) -> str | None:
    """Return one path up to the second segment that differs, and the other one from there."""
    begin, end = first.split("/"), latest.split("/")
    if len(begin) != len(end):
        return None
    differ = [n for n, pair in enumerate(zip(begin, end, strict=True)) if pair[0] != pair[1]]
    if len(differ) < 2:
        return None
    return "/".join(begin[: differ[1]] + end[differ[1] :])


def _beyond(path: str, word: str) -> str:
    """Return a path whose last segment has far larger numbers, or ends with a word."""
    folder, slash, last = path.rstrip("/").rpartition("/")
    tail = path[len(folder + slash + last) :]
    far = _NUMBER.sub(lambda number: str(int(number[0]) * _FAR + _BEYOND), last)
    return folder + slash + far + tail if far != last else _ending(path, word)


def _ending(path: str, word: str) -> str:
    """Return a path whose last segment ends with a word, in front of its file extension."""
    folder, slash, last = path.rstrip("/").rpartition("/")
    tail = path[len(folder + slash + last) :]
    name, dot, extension = last.rpartition(".")
    stem, rest = (name, dot + extension) if name else (last, "")
    return f"{folder}{slash or '/'}{stem}-{word}{rest}{tail if slash else ''}"
