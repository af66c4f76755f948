"""Rules in a word, the referee of windows, gates, and machines with many domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from ipaddress import ip_address, ip_network
from typing import Any

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import UNSENT, Release, SentRequest
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from support.frontier.bench import KEYS, Bench, Worker


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


AT_HOME = "192.0.2.1"


class Machine:
    """A worker of sites that are at these addresses, and the log of each machine.

    Times are of the frontier clock, if ``clock`` is none other.
    """

    def __init__(
        self,
        bench: Bench,
        worker: Worker,
        places: Mapping[str, str],
        clock: Callable[[], Awaitable[int]] | None = None,
    ) -> None:
        self.clock = clock or bench.clock
        self.worker = worker
        self.places = places
        self.log: dict[str, list[int]] = defaultdict(list)
        self.moved = 0

    async def fetch(self, want: int) -> list[Lease]:
        """Lease, give back what used another gate, and request the others."""
        leases = [*await self.worker.lease(want)]
        groups = self.worker.session.groups
        assert groups is not None
        gate_of = {
            one.token: groups.gate_at(one.domain, ip_address(self.places[one.domain]))
            for one in leases
        }
        wrong = [
            Release(token=one.token, sent_ms=UNSENT, gate=gate_of[one.token])
            for one in leases
            if one.gate != gate_of[one.token]
        ]
        self.moved += len(wrong)
        gone = {release.token for release in wrong}
        sent = [one for one in leases if one.token not in gone]
        now = await self.clock()
        for one in sent:
            self.log[self.places[one.domain]].append(now)
        reports = [SentRequest(one.token, 0, received=True) for one in sent]
        await self.worker.exchange(releases=wrong, sent=reports)
        await self.worker.settle(*sent, sent_ms=0)
        return sent
