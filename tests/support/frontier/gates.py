"""Groups of domains under test, and what waits in their gates."""

from __future__ import annotations

from typing import Any

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import Group
from support.frontier.bench import KEYS


def group(rule: ThrottleRule, *members: str) -> Group[ThrottleRule]:
    """A group with this rule."""
    return Group(rule=rule, members=members)


async def in_gates(redis: Any) -> dict[str, list[str]]:
    """The domains that wait in each gate of the spider."""
    names = [name.decode() for name in await redis.smembers(f"{KEYS.tag}gates:link")]
    return {
        name: [one.decode() for one in await redis.zrange(f"{KEYS.tag}a:link:{name}", 0, -1)]
        for name in names
    }


async def gate_keys(redis: Any) -> list[str]:
    """All keys that gates have while domains wait in them."""
    found = [name.decode().removeprefix(KEYS.tag) for name in await redis.keys(f"{KEYS.tag}*")]
    return [name for name in found if name.startswith(("a:", "gates:"))]
