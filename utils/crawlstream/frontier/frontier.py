"""The frontier as its callers see it: one method an operation, values in and values out."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, cast

from redis.asyncio import Redis

from crawlstream.errors import ConfigError, PositionGap
from crawlstream.frontier import packing
from crawlstream.frontier.scripts import Scripts
from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import (
    Exchanged,
    IntakeAnswer,
    IntakeBatch,
    Links,
    Release,
    Requeue,
    Sent,
    Settle,
)
from crawlstream.model.state import CrawlState, FrontierState
from crawlstream.model.throttle import ThrottleTable

DEADLINE_MS = 30_000
"""A worker that was not heard of for so long is dead; its holds return."""
MAX_HOLD_MS = 600_000
"""Even a live worker loses a hold after this."""
SETTLED_MS = 15_000
"""A hold younger than this may still be on its way to the worker that holds it."""
RETRY_PRIORITY_STEP = -10
"""What one retry costs in priority."""
LINKS_PER_CALL = 1_000
"""Links in one script: keeps the longest call near 5 ms."""
INTAKE_PER_CALL = 200
"""Records in one script, for the same reason."""
DOMAINS_PER_CALL = 200
"""Domains listed or swept in one script, for the same reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierLimits:
    """Times that must agree across the cluster."""

    finish_grace_ms: int = 3_000
    dedupe_ms: int = 600_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """What one step of care did."""

    ended: int
    reaped: int
    more: bool
    """There is work left that is due now."""
    next_ms: int | None
    """When the next thing falls due; None: nothing is waiting for its time."""


class Frontier:
    """The frontier in one Redis. One instance a process; a worker uses its own.

    Every method raises RedisUnavailable when Redis gives no answer; the call may have taken
    effect, and repeating it with the same arguments is safe.
    """

    def __init__(
        self, redis: Redis, keys: FrontierKeys, limits: FrontierLimits | None = None
    ) -> None:
        if keys.partitions != 1:
            raise ConfigError("the frontier has one partition; more are not supported yet")
        self._redis = redis
        self._keys = keys
        self._limits = limits or FrontierLimits()
        self._scripts = Scripts(redis)
        self._prefix = keys.tag(0)
        self._call = 1
        self._inherited: dict[str, packing.Inheritance] = {}

    async def _run(self, operation: str, *args: str | bytes | int) -> object:
        return await self._scripts.run(operation, self._prefix, *args)

    # Intake: the way in for seeds and commands.

    async def intake(self, batch: IntakeBatch) -> IntakeAnswer:
        """Let consecutive records take effect, with their position.

        PositionGap: records before the batch are missing; read again from its ``position``.
        FrontierFull: nothing was written; pause, then repeat.
        """
        answer = packing.unpack(await self._run("intake", packing.pack_intake(batch)))
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        _, applied, runs, refused = answer
        return IntakeAnswer(
            applied=applied,
            runs=dict(zip(runs[::2], runs[1::2], strict=True)),
            refused={
                offset: reason.decode()
                for offset, reason in zip(refused[::2], refused[1::2], strict=True)
            },
        )

    async def position(self, topic_id: str, kafka_partition: int) -> int | None:
        """The next offset to apply of a Kafka partition; None before its first record."""
        field = f"{topic_id}:{kafka_partition}"
        value = await cast(Any, self._redis.hget(self._keys.positions(), field))
        return None if value is None else int(value)

    # A worker's side: leasing and ending holds.

    async def exchange(
        self,
        worker: str,
        spiderid: str,
        *,
        settles: Sequence[Settle] = (),
        requeues: Sequence[Requeue] = (),
        releases: Sequence[Release] = (),
        sent: Sequence[Sent] = (),
        want: int = 0,
    ) -> Exchanged:
        """Tell the frontier everything that happened and lease up to ``want`` entries.

        One call at a time; after RedisUnavailable the same arguments (and more) may be sent again:
        holds granted by a call whose answer was lost are granted again.
        """
        request = [
            self._call,
            worker,
            encode_id(spiderid),
            want,
            DEADLINE_MS,
            [[s.token, s.after_ms, s.received] for s in sent],
            [await self._pack_settle(worker, spiderid, s) for s in settles],
            [
                [r.token, r.delay_ms, packing.none_as(r.sent_ms), RETRY_PRIORITY_STEP]
                for r in requeues
            ],
            [[r.token, r.delay_ms, packing.none_as(r.sent_ms), r.robots] for r in releases],
        ]
        issued_at = time.monotonic()
        answer = packing.unpack(await self._run("exchange", packing.pack(request)))
        granted, crawls, profiles, stale, life, next_due, rules_known, repeat = answer
        self._call += 1
        holds, inherited = packing.unpack_holds(granted, crawls, profiles, issued_at=issued_at)
        self._inherited.update(inherited)
        gone = {token.decode() for token in stale}
        lost = {token.decode() for token in repeat}
        for token in _tokens(settles) + _tokens(requeues) + _tokens(releases):
            if token not in lost:
                self._inherited.pop(token, None)
        if lost:
            again = [settle for settle in settles if settle.token in lost]
            gone |= (await self.exchange(worker, spiderid, settles=again)).stale
        return Exchanged(
            holds=holds,
            stale=frozenset(gone),
            life=life,
            next_due_ms=None if next_due < 0 else next_due,
            rules_known=rules_known,
        )

    async def _pack_settle(self, worker: str, spiderid: str, settle: Settle) -> list[object]:
        inherited = self._inherited.get(settle.token, packing.Inheritance(0, None, None))
        links, life = settle.links, None
        if sum(len(group.entries) for group in links) > LINKS_PER_CALL:
            life = await self._put_ahead(worker, spiderid, settle)
            links = ()
        return [
            settle.token,
            settle.outcome.value,
            settle.reason,
            packing.none_as(settle.sent_ms),
            settle.body_bytes,
            packing.none_as(inherited.domain_max_pages),
            packing.none_as(inherited.max_pages),
            inherited.pack_links(links, spiderid),
            [part for pair in settle.filtered.items() for part in pair],
            packing.none_as(life),
        ]

    async def _put_ahead(self, worker: str, spiderid: str, settle: Settle) -> int:
        """Put the links of a huge page in calls of their own; answers the life of the first.

        If Redis was restarted since, settle finds another life and asks for a repetition.
        """
        inherited = self._inherited[settle.token]
        lives = []
        for chunk in _chunks(settle.links):
            request = [
                worker,
                settle.token,
                packing.none_as(inherited.domain_max_pages),
                packing.none_as(inherited.max_pages),
                inherited.pack_links([chunk], spiderid),
            ]
            lives.append(packing.unpack(await self._run("put", packing.pack(request)))[2])
        return int(lives[0])

    async def beat(self, worker: str) -> int:
        """Move the worker's deadline; answers the life of Redis."""
        return int(cast(int, await self._run("beat", worker, DEADLINE_MS)))

    async def reconcile(self, worker: str, alive: Collection[str]) -> Sequence[str]:
        """Give back what Redis holds for the worker and the worker does not know.

        Answers the tokens of ``alive`` that Redis does not know: their entries are in other hands.
        """
        answer = await self._run(
            "retire", worker, packing.pack(list(alive)), SETTLED_MS, MAX_HOLD_MS
        )
        _, unknown = packing.unpack(answer)
        tokens = [token.decode() for token in unknown]
        for token in tokens:
            self._inherited.pop(token, None)
        return tokens

    async def retire(self, worker: str) -> int:
        """Give back everything Redis holds for the worker, unmarked; it is gone after this."""
        returned, _ = packing.unpack(await self._run("retire", worker, b"", 0, 0))
        self._inherited.clear()
        return len(returned)

    async def blame(self, worker: str, token: str) -> int:
        """Take back the holds of a worker known to be dead; answers how many there were.

        Its successor in the same slot calls this with the token of the entry that the dead one
        was handling (empty: none), which alone gains a death.
        """
        _, returned, buried = packing.unpack(await self._run("reap", worker, token))
        return int(returned) + int(buried)

    # Care, by the redis-monitors.

    async def tend(self) -> Tended:
        """One bounded step: end what is over, reap dead workers, sweep closed crawls."""
        limits = self._limits
        answer = packing.unpack(
            await self._run("tend", limits.finish_grace_ms, limits.dedupe_ms, 20)
        )
        ended, dead, to_sweep, next_ms = answer
        reaped = 0
        if dead:
            reaped = 1 if packing.unpack(await self._run("reap", "", ""))[0] else 0
        left = int(cast(int, await self._run("sweep", DOMAINS_PER_CALL))) if to_sweep else 0
        return Tended(
            ended=ended,
            reaped=reaped,
            more=bool(left or reaped or ended),
            next_ms=None if next_ms < 0 else int(next_ms),
        )

    async def copy_rules(self, table: ThrottleTable, *, adopt: bool = False) -> bool:
        """Let a throttle table rule; False: it is older than the one in force, or of another node."""
        return bool(await self._run("rules", packing.pack_table(table, adopt=adopt)))

    async def rules(self) -> ThrottleTable | None:
        """The throttle table in force; None before the first."""
        blob = await self._redis.get(self._keys.table())
        return packing.unpack_table(cast(bytes, blob)) if blob else None

    # Questions.

    async def crawl_state(
        self, crawl: CrawlKey, *, with_domains: bool = True
    ) -> CrawlState | None:
        """The ledger of a crawl's latest run; None where no such crawl is remembered."""
        return await self._state_of(FrontierKeys.crawl_field(crawl), with_domains=with_domains)

    async def _state_of(self, name: str, *, with_domains: bool) -> CrawlState | None:
        cursor, domains = "0" if with_domains else "", []
        while True:
            answer = packing.unpack(await self._run("info", name, cursor, DOMAINS_PER_CALL))
            if not answer or not answer[2]:
                return None
            domains += answer[4]
            cursor = answer[3].decode()
            if cursor == "0":
                return packing.crawl_state(packing.pairs(answer[2]), domains)

    async def crawls(
        self, *, spiderid: str | None = None, appid: str | None = None, with_domains: bool = False
    ) -> Sequence[CrawlState]:
        """The crawls that are remembered, of one spider and application if these are given."""
        wanted = [encode_id(part) if part is not None else None for part in (spiderid, appid)]
        states = []
        for field in await cast(Any, self._redis.hkeys(self._keys.names())):
            name = field.decode()
            ids = name.split(":")
            if any(want not in (None, ids[i]) for i, want in enumerate(wanted)):
                continue
            state = await self._state_of(name, with_domains=with_domains)
            if state is not None:
                states.append(state)
        return states

    async def state(self) -> FrontierState:
        """The frontier at a glance."""
        running = [state for state in await self.crawls() if state.state == "running"]
        keys, redis = self._keys, cast(Any, self._redis)
        spiders = [name.decode() for name in await redis.smembers(keys.spiders())]
        backlog = {name: await redis.hlen(keys.domains(name)) for name in sorted(spiders)}
        clock, life, rules = await redis.hmget(keys.meta(), "clock", "life", "mzxid")
        return FrontierState(
            life=int(life or 0),
            clock_ms=int(clock or 0),
            rules_known=rules is not None,
            crawls=len(running),
            queued=sum(state.queued for state in running),
            delayed=sum(state.delayed for state in running),
            held=sum(state.held for state in running),
            workers=await redis.zcard(keys.workers()),
            outbox=await redis.xlen(keys.outbox()),
            actions=await redis.xlen(keys.actions()),
            backlog=backlog,
        )


def _tokens(ends: Sequence[Settle] | Sequence[Requeue] | Sequence[Release]) -> list[str]:
    return [end.token for end in ends]


def _chunks(links: Sequence[Links]) -> list[Links]:
    """Groups of at most LINKS_PER_CALL links."""
    chunks = []
    for group in links:
        for start in range(0, len(group.entries), LINKS_PER_CALL):
            end = start + LINKS_PER_CALL
            chunks.append(
                Links(
                    domain=group.domain,
                    priority=group.priority,
                    spiderid=group.spiderid,
                    counts=group.counts,
                    fingerprints=group.fingerprints[start:end],
                    entries=group.entries[start:end],
                )
            )
    return chunks
