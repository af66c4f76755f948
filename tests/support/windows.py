"""Rules in a word, the referee of windows, and the gates of groups."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Any

from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from support.frontier.bench import KEYS, Worker


def spaced(hits: int, window_s: float, concurrency: int = 100) -> ThrottleRule:
    """A moderated rule."""
    return ThrottleRule(hits=hits, window_s=window_s, concurrency=concurrency)


def bursts(hits: int, window_s: float, concurrency: int = 1_000) -> ThrottleRule:
    """An unmoderated rule."""
    return ThrottleRule(hits=hits, window_s=window_s, moderated=False, concurrency=concurrency)


async def due_ms(worker: Worker) -> int:
    """How long nothing is allowed."""
    answer = await worker.exchange(want=1)
    assert not answer.leases, "allowed now"
    assert answer.next_due_ms is not None
    return answer.next_due_ms


def check_windows(sends: list[int], rule: ThrottleRule) -> None:
    """No window of the rule holds more sends than its hits."""
    window, hits, times = int(rule.window_s * 1000), rule.effective_hits, sorted(sends)
    for first, beyond in zip(times, times[hits:], strict=False):
        assert beyond - first >= window, (beyond - first, window, hits)


def group(rule: ThrottleRule, *members: str) -> Group[ThrottleRule]:
    """A group with this rule."""
    return Group(rule=rule, members=members)


def by_address(rule: ThrottleRule, *excepted: str) -> Groups[ThrottleRule]:
    """Only a limit of addresses."""
    return Groups({}, AddressLimits(rule=rule, excepted=tuple(map(ip_network, excepted))))


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
