"""The latest changes of the throttle rules by any means: when, what, and the author if known.

The redis-monitor that copies a version of the node records how it differs from the version that was
in force. Only REST knows its client; changes by commands, by requests on the topic and by other
tools have no name.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from redis.asyncio import Redis

from crawlstream.keys import FrontierKeys
from crawlstream.model.throttle_table import ThrottleTable

DEFAULT = "default"
KEPT = 500
"""Changes, and authors."""
_AT_ONCE = 100
"""Changes of one version that are written down."""
_BETWEEN = "\n"
"""No name of a domain or key has it, nor does a rule in words."""


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A change of one domain, or of the default, at one version of the node."""

    version: int
    """Version of the node, its ``mzxid``."""
    domain: str
    """Or ``default``."""
    before: str
    """In words; empty: the default applied."""
    after: str


@dataclass(frozen=True, slots=True)
class KnownChange:
    """A change, when it was seen (epoch s), and its author; empty: unknown."""

    change: RuleChange
    at: float
    by: str


async def note_changes(
    redis: Redis, keys: FrontierKeys, before: ThrottleTable, after: ThrottleTable
) -> None:
    """Write down what differs; to repeat it is harmless."""
    now = time.time()
    found = {
        _BETWEEN.join((str(one.version), one.domain, one.before, one.after)): now
        for one in islice(changes_between(before, after), _AT_ONCE)
    }
    if found:
        await redis.zadd(keys.rule_changes(), found, nx=True)
        await redis.zremrangebyrank(keys.rule_changes(), 0, -KEPT - 1)


async def note_author(redis: Redis, keys: FrontierKeys, version: int, who: str) -> None:
    """Write down who made a version of the node."""
    member = f"{version}{_BETWEEN}{who}"
    await redis.zadd(keys.rule_authors(), {member: time.time()}, nx=True)
    await redis.zremrangebyrank(keys.rule_authors(), 0, -KEPT - 1)


async def read_changes(
    redis: Redis, keys: FrontierKeys, domain: str = "", *, most: int = 20
) -> Sequence[KnownChange]:
    """The latest changes, of one domain or of all, newest first."""
    async with redis.pipeline(transaction=False) as pipe:
        pipe.zrevrange(keys.rule_changes(), 0, -1, withscores=True)
        pipe.zrange(keys.rule_authors(), 0, -1)
        told, authors = await pipe.execute()
    names = dict(one.decode().split(_BETWEEN, 1) for one in cast("list[bytes]", authors))
    found = []
    for member, at in told:
        version, name, before, after = member.decode().split(_BETWEEN, 3)
        if domain in {"", name}:
            change = RuleChange(int(version), name, before, after)
            found.append(KnownChange(change, at, names.get(version, "")))
    return found[:most]


def changes_between(before: ThrottleTable, after: ThrottleTable) -> Iterator[RuleChange]:
    """Yield the differences between two tables, sorted by domain; the default first."""
    names = before.rules.keys() | after.rules.keys() | before.blacklist | after.blacklist
    for name in (DEFAULT, *sorted(names)):
        old, new = _told(before, name), _told(after, name)
        if old != new:
            yield RuleChange(after.mzxid, name, old, new)


def _told(table: ThrottleTable, name: str) -> str:
    if name == DEFAULT:
        return str(table.default)
    rule = str(table.rules[name]) if name in table.rules else ""
    return "blocked" if name in table.blacklist else rule
