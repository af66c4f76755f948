"""Warnings about variables that look like settings but have no effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase

from crawlstream.boot.variables import setting_names

_ALIKE = 0.9
"""How alike two names must be, as ``difflib`` measures it: one letter of ten may be wrong."""

_OTHERS = frozenset(
    f"CRAWLSTREAM_{name}"
    for name in (
        *("DEBUG", "INSTALL", "JARS", "KAFKA_PORT", "REDIS_PORT", "SPIDER_MODULES"),
        "ZOOKEEPER_PORT",
    )
)
"""Variables that are read but do not belong to the settings of a process."""

FORMER: Mapping[str, str] = {
    "KAFKA_PRODUCER_TOPIC": "KAFKA_INCOMING_TOPIC names it",
    "GLOBAL_PAGE_PER_DOMAIN_LIMIT": "each request has its domain_max_pages",
    "SCHEDULER_QUEUE_REFRESH": "nothing is polled",
    "SCHEDULER_QUEUE_TIMEOUT": "nothing is polled",
    "SLEEP_TIME": "nothing is polled",
    "PUBLIC_IP_URL": "CRAWLSTREAM_EGRESS_GROUP says it",
    "SCHEDULER_ITEM_RETRIES": "a page is tried again RETRY_TIMES times",
    "SCHEDULER_PERSIST": "what waits is always kept",
    "HEARTBEAT_TIMEOUT": "a process that is gone is forgotten by itself",
    "RETRY_FAILURES": "an action is tried until it takes effect or is refused",
    "*_PAGE_*TIMEOUT": "page limits last as long as their crawl is remembered",
    "KAFKA_PRODUCER_*": "a body is cut at CRAWLSTREAM_MAX_BODY_BYTES",
    "KAFKA_CONSUMER_*": "a consumer goes on where the records have taken effect",
    "STATS_*": "everything is counted",
    "LOG_FILE": "logs go to standard error, by LOG_JSON and LOG_LEVEL",
    "LOG_DIR": "logs go to standard error, by LOG_JSON and LOG_LEVEL",
    "SC_LOG_*": "logs go to standard error, by LOG_JSON and LOG_LEVEL",
}
"""Settings of the predecessor that nothing reads, and what there is instead; the first pattern
that fits counts. ``docs/migrating.md`` lists the same."""


def misspelt(environment: Iterable[str]) -> Iterator[str]:
    """A sentence for each variable that is read by nothing, and resembles a setting."""
    settings = setting_names()
    present = set(environment)
    for name in sorted(present - settings - _OTHERS):
        candidates = {each for each in settings - present | FORMER.keys() if each[:1] == name[:1]}
        near = get_close_matches(name, sorted(candidates), 1, _ALIKE)
        if instead := instead_of(name) or (near and instead_of(near[0])):
            yield f"{name} is not needed any more: {instead}"
        elif near:
            yield f"{name} is not a setting; did you mean {near[0]}?"


def instead_of(name: str) -> str | None:
    """Return the replacement for a setting of the predecessor."""
    return next((text for pattern, text in FORMER.items() if fnmatchcase(name, pattern)), None)
