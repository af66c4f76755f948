"""Measure a thousand domains on one machine: its own log, and what their gate costs Redis.

The frontier is the real one, in a real Redis; two workers lease from it. Time and the machine are
simulated, so that the figures do not depend on this one. Instructions are counted by valgrind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from ipaddress import ip_address
from unittest.mock import patch

from lib.harness import Benchmark, Figures, Line
from lib.instructions import redis_instructions
from lib.load import KEYS, SPIDER, WIDE_OPEN, domain_name, done, fill, open_frontier
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import UNSENT, Release, SentRequest
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import AddressLimits, Group, Groups
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.reckoning import Reckoning
from crawlstream_frontier.worker.session import WorkerSession

NAMES, EACH, LASTS_S, TAKES_S = 1_000, 3, 120, 0.3
RULE = ThrottleRule(hits=20, window_s=1, moderated=False, concurrency=64)
OWN = ThrottleRule(hits=1, window_s=10)
AT = ip_address("192.0.2.1")
WIDE_GATE = ThrottleRule(hits=1_000_000, window_s=1, moderated=False, concurrency=100_000)
DOMAINS, WARM, COUNTED, BATCH = 100, 400, 1_000, 10
Table = Groups[ThrottleRule]


@dataclass(slots=True)
class Fetched:
    """A lease whose request was sent, and when its answer comes."""

    lease: Lease
    over_s: float


class Machine:
    """Two workers that fetch the pages of one machine as the frontier allows it."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        names = ("first", "second")
        self.workers = [Frontier(redis, KEYS).session(name, SPIDER) for name in names]
        self.log: list[float] = []
        self.moved = 0
        self._open: list[list[Fetched]] = [[], []]

    async def run(self) -> None:
        """Let the workers call in turn, when something is due or 25 ms later."""
        now_ms, number = 0, 0
        while now_ms < LASTS_S * 1000:
            due_ms = await self._call(number, now_ms / 1000)
            step_ms = min(max(25 if due_ms is None else due_ms, 1), 25)
            await self._redis.hincrby(KEYS.meta(), "clock", step_ms)
            now_ms, number = now_ms + step_ms, 1 - number

    async def _call(self, number: int, now_s: float) -> int | None:
        over = [one.lease for one in self._open[number] if one.over_s <= now_s]
        self._open[number] = [one for one in self._open[number] if one.over_s > now_s]
        worker = self.workers[number]
        answer = await worker.exchange(settles=[done(one) for one in over], want=16)
        moves, stay = moves_of(worker, answer.leases)
        self.moved += len(moves)
        self.log += [now_s] * len(stay)
        self._open[number] += [Fetched(lease, now_s + TAKES_S) for lease in stay]
        sent = [SentRequest(one.token, 0) for one in stay]
        return (await worker.exchange(releases=moves, sent=sent)).next_due_ms


def moves_of(worker: WorkerSession, leases: Sequence[Lease]) -> tuple[list[Release], list[Lease]]:
    """Return releases of the leases that used another gate than that of the machine; the others."""
    groups = worker.groups
    moves: list[Release] = []
    stay: list[Lease] = []
    for lease in leases:
        gate = groups.gate_at(lease.domain, AT) if groups else ""
        if gate == lease.gate:
            stay.append(lease)
        else:
            moves.append(Release(token=lease.token, sent_ms=UNSENT, gate=gate))
    return moves, stay


async def fed(redis: Redis, own: ThrottleRule, groups: Table, domains: int, each: int) -> None:
    """Fill a frontier with links, and let rules be in force."""
    filler, lease = await open_frontier(redis, WIDE_OPEN)
    await fill(filler, lease, domains, each)
    table = ThrottleTable(default=own, groups=groups, czxid=1, mzxid=2)
    await Frontier(redis, KEYS).rules.copy(table)


def over(log: Sequence[float], rule: ThrottleRule) -> int:
    """Return how many requests came before the window of the rule allowed them."""
    return sum(
        later - first < rule.window_s - 1e-9
        for first, later in zip(log, log[rule.hits :], strict=False)
    )


async def counted(
    own: ThrottleRule, groups: Table, redis: Redis, switch: Callable[[str], None]
) -> int:
    """Lease and settle pages as one worker does, one of a domain in a call; return their number."""
    await fed(redis, own, groups, DOMAINS, (WARM + COUNTED) // DOMAINS + 10)
    worker = Frontier(redis, KEYS).session("counted", SPIDER)
    open_: list[Lease] = []
    pages, begun = 0, 0
    while pages < WARM + COUNTED:
        if pages >= WARM and not begun:
            switch("on")
            begun = pages
        answer = await worker.exchange(settles=[done(one) for one in open_], want=BATCH)
        pages += len(open_)
        moves, open_ = moves_of(worker, answer.leases)
        await worker.exchange(releases=moves, sent=[SentRequest(one.token, 0) for one in open_])
        await redis.hincrby(KEYS.meta(), "clock", 50)
    switch("off")
    return pages - begun


def kinds() -> dict[str, Table]:
    """Return the groups of which the instructions are compared."""
    others = Group(rule=WIDE_GATE, members=tuple(f"other{n}.org" for n in range(DOMAINS)))
    names = Group(rule=WIDE_GATE, members=tuple(domain_name(n) for n in range(DOMAINS)))
    return {
        "without": Groups(),
        "outside": Groups({"others": others}),
        "in_group": Groups({"names": names}),
        "at_address": Groups({}, AddressLimits(rule=WIDE_GATE)),
    }


async def measure(redis: Redis) -> Figures:
    """Let two workers crawl the machine, and count instructions of Redis."""
    await fed(redis, OWN, Groups({}, AddressLimits(rule=RULE)), NAMES, EACH)
    machine = Machine(redis)
    with patch.object(Reckoning, "known", lambda _: (0, 0)):  # no time passes but this one's
        await machine.run()
    log = machine.log
    figures = {
        "windows_over": float(over(log, RULE)),
        "used": len(log) / (LASTS_S * RULE.hits / RULE.window_s),
        "moved_a_name": machine.moved / NAMES,
    }
    for rule, own in (("", WIDE_OPEN), ("_spaced", ThrottleRule(hits=20, window_s=1))):
        for kind, groups in kinds().items():
            count = await redis_instructions(partial(counted, own, groups))
            if count is not None:
                figures[f"instructions_{kind}{rule}"] = count
    return figures


if __name__ == "__main__":
    Benchmark(
        name="gates",
        about="A thousand domains on one machine: its log, and what its gate costs.",
        measure=measure,
        lines={
            "windows_over": Line(floor=0, goal=0, unit="requests"),
            "used": Line(floor=0.97, goal=0.985, unit="of the limit", more=True),
        },
        repetitions=1,
    ).main()
