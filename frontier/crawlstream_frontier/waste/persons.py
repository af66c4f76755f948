"""Manual verdicts on families of URLs: they prevail over those that are learned."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple
from urllib.parse import unquote

from crawlstream.errors import ConfigError
from crawlstream_frontier.waste.families import family_hash
from crawlstream_frontier.waste.sketch import Sketch

_FAMILY = re.compile(r"host|[?][A-Za-z0-9_.~/#*?%-]{1,64}|/[A-Za-z0-9/#*]{0,200}|~[0-9a-f]{8}")


class PersonWord(StrEnum):
    """Verdict of a person."""

    ALLOW = "allow"
    """The family is neither refused, nor put last, nor dropped."""
    REFUSE = "refuse"


class PersonVerdict(NamedTuple):
    """Manual verdict on a family of URLs of a site."""

    site: str
    family: str
    """Its name as it is shown."""
    key: int
    """Hash of its name; see ``family_hash``."""
    verdict: str
    """A ``PersonWord``."""
    author: str
    at: int = 0
    """Epoch seconds, by the clock of Redis."""


PersonWords = Mapping[int, str]
"""Verdicts on the families of one site, by the hash of their names."""


def check_family(name: str) -> str:
    """Return the name of a family as it is shown; ConfigError for other texts."""
    if not _FAMILY.fullmatch(name):
        raise ConfigError(
            f"{name[:60]!r} is not a family of URLs: use ?NAME of a parameter, host, the form of a"
            " path such as /events/#/#, or a name as `frontier guard` shows it"
        )
    return name


def key_of(name: str, sketch: Sketch) -> int:
    """Return the hash of a family by its name as it is shown, which may be cut or a hash."""
    shown = {family.shown: family.key for family in sketch.families}
    if name in shown:
        return shown[name]
    if name.startswith("~"):
        return int(name[1:], 16)
    return family_hash(unquote(name))


def by_site(verdicts: Sequence[PersonVerdict]) -> Mapping[str, PersonWords]:
    """Return the verdicts by site, as the verdicts of a sketch are overridden by them."""
    found: dict[str, dict[int, str]] = {}
    for each in verdicts:
        found.setdefault(each.site, {})[each.key] = each.verdict
    return found
