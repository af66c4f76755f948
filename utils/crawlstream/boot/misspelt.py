"""Variables with nearly the names of settings: nothing else would tell that they do nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches

from crawlstream.boot.variables import setting_names

_ALIKE = 0.9
"""How alike two names must be, as ``difflib`` measures it: one letter of ten may be wrong."""

_OTHERS = frozenset(
    f"CRAWLSTREAM_{name}"
    for name in (
        "DEBUG",
        "INSTALL",
        "JARS",
        "KAFKA_PORT",
        "REDIS_PORT",
        "SPIDER_MODULES",
        "ZOOKEEPER_PORT",
    )
)
"""Variables that are read, and are no settings of a process."""


def misspelt(environment: Iterable[str]) -> Iterator[str]:
    """A sentence for each variable that is none of ours, and has nearly the name of one."""
    settings = setting_names()
    present = set(environment)
    for name in sorted(present - settings - _OTHERS):
        candidates = [each for each in settings - present if each[:1] == name[:1]]
        if near := get_close_matches(name, candidates, 1, _ALIKE):
            yield f"{name} is not a setting; did you mean {near[0]}?"
