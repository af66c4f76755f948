"""The frontier's invariants, and that every key of it is in docs/keys.md."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from redis.asyncio import Redis

from crawlstream_chaos.laws.invariants import Dump, check

_KEYS_PAGE = Path(__file__).parents[3] / "docs" / "keys.md"

PERMANENT = {
    "m",
    "positions",
    "rules",
    "table",
    "proxies",
    "t",
    "totals",
    "outbox",
    "actions",
    "overflow",
    "shelf",
}
"""Keys that stay when everything that was ever fed is over and forgotten."""


async def audit(redis: Redis) -> Dump:
    """Check every invariant; the dump is given back for further questions."""
    state = await check(redis)
    undocumented = [name for name in state.values if not is_documented(name)]
    assert not undocumented, undocumented
    return state


def documented() -> list[str]:
    """Names of keys in docs/keys.md, without prefix; ``<…>`` stands for any text."""
    rows = re.findall(r"^\| `(?:\{cs0\})?([^`]+)`", _KEYS_PAGE.read_text(), re.MULTILINE)
    assert rows
    return rows


def _pattern(name: str) -> re.Pattern[str]:
    parts = re.split(r"<[^>]+>", name)
    return re.compile(".+".join(map(re.escape, parts)), re.DOTALL)


_PATTERNS: list[re.Pattern[str]] = []


@lru_cache(maxsize=10_000)
def is_documented(name: str) -> bool:
    """Return whether docs/keys.md lists the key."""
    if not _PATTERNS:
        _PATTERNS.extend(map(_pattern, documented()))
    return any(pattern.fullmatch(name) for pattern in _PATTERNS)


def left_over(state: Dump) -> set[str]:
    """Keys that are not permanent."""
    assert not state.get("t")
    return set(state.values) - PERMANENT
