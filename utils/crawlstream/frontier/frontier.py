"""The frontier as its callers see it: one method an operation, values in and values out."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, cast

from redis.asyncio import Redis

from crawlstream.errors import FrontierFull, NoFrontier, PositionGap
from crawlstream.frontier import care, packing
from crawlstream.frontier.care import Balance, FrontierLimits, Tended
from crawlstream.frontier.children import Children
from crawlstream.frontier.overflow import spill
from crawlstream.frontier.questions import Room, state_of, states_of
from crawlstream.frontier.reports import pack_release, pack_requeue, pack_sent
from crawlstream.frontier.scope import agree
from crawlstream.frontier.scripts import Scripts, our_errors
from crawlstream.frontier.sites import Sites
from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import CrawlKey, Hold
from crawlstream.model.effects import (
    Command,
    Exchanged,
    IntakeAnswer,
    IntakeBatch,
    Links,
    Release,
    Requeue,
    Sent,
    Settle,
    Spill,
)
from crawlstream.model.state import CrawlState, FrontierState
from crawlstream.model.throttle import ThrottleTable

__all__ = ["Frontier", "FrontierLimits", "Tended"]

DEADLINE_MS = 30_000
"""A worker that was not heard of for so long is dead; its holds return."""
LEASES_PER_CALL = 200
"""Entries granted by one script: keeps the longest call near 5 ms."""
INTAKE_PER_CALL = 200
"""Records in one script, for the same reason."""
INTAKE_BYTES_PER_CALL = 512 * 1024
"""Of these records together, unless one alone is larger: Redis counts a call as memory in use, and
no batch shall fill it by being on its way."""


class Frontier:
    """The frontier in one Redis. One instance a process; a worker uses its own.

    Every method raises RedisUnavailable when Redis gives no answer; the call may have taken
    effect, and repeating it with the same arguments is safe.
    """

    def __init__(
        self,
        redis: Redis,
        keys: FrontierKeys,
        limits: FrontierLimits | None = None,
        *,
        group: str = "",
    ) -> None:
        self._redis: Any = redis
        self._keys = keys
        self._limits = limits or FrontierLimits()
        self._group = encode_id(group)
        self._scripts = Scripts(redis, keys.tag)
        self._run = self._scripts.run
        self._children = Children(self._scripts, Sites(self.rules))
        self._call = 1
        self._unheard: Sequence[Hold] = ()
        """Granted by a call whose repetition, for the sake of some settles, was not answered."""

    # Intake: the way in for seeds and commands.

    def pack_intake(self, batch: IntakeBatch) -> bytes:
        """What ``intake`` sends: worth making while another call is under way."""
        return packing.pack_intake(batch, self._children.sites)

    async def intake(self, batch: IntakeBatch | bytes) -> IntakeAnswer:
        """Let consecutive records take effect, with their position; packed or not.

        PositionGap: records before the batch are missing; read again from its ``position``, or -1
        where none is known.
        FrontierFull: seeds wait until Redis is less full; pause, then repeat. Commands ahead of
        the first seed have taken effect, and so have stops behind it.
        """
        packed = batch if isinstance(batch, bytes) else self.pack_intake(batch)
        try:
            answer = packing.unpack(await self._run("intake", packed))
        except NoFrontier:
            raise PositionGap(-1) from None
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])
        if answer[0] == b"FULL":
            raise FrontierFull(packing.why_full(*answer[1:]))
        _, applied, runs, refused, sites = answer
        await self._children.sites.follow(sites)
        return IntakeAnswer(
            applied=applied,
            runs=dict(zip(runs[::2], runs[1::2], strict=True)),
            refused={n: reason.decode() for n, reason in zip(*[iter(refused)] * 2, strict=True)},
        )

    async def stop_ahead(self, topic_id: str, kafka_partition: int, stop: Command) -> None:
        """Let a stop take effect, if Redis is full, though seeds wait before it.

        It is answered now, and not again in its turn. PositionGap: the partition is unknown.
        """
        packed = packing.pack_stop_ahead(topic_id, kafka_partition, stop)
        answer = packing.unpack(await self._run("intake", packed))
        if answer[0] == b"GAP":
            raise PositionGap(answer[1])

    async def position(self, topic_id: str, kafka_partition: int) -> int | None:
        """The next offset to apply of a Kafka partition; None before its first record."""
        field = f"{topic_id}:{kafka_partition}"
        with our_errors():
            value = await self._redis.hget(self._keys.positions(), field)
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

        One call at a time, of at most 1 000 tokens. After RedisUnavailable the same arguments (and
        more) may be sent again: holds granted by a call whose answer was lost are granted again.
        """
        ends, with_children, full = await self._children.pack(worker, spiderid, settles)
        request = [
            *self._caller(worker, spiderid, max(want - len(self._unheard), 0)),
            [pack_sent(each) for each in sent],
            ends,
            with_children,
            [pack_requeue(each) for each in requeues],
            [pack_release(each) for each in releases],
            self._group,
        ]
        issued_at = time.monotonic()
        answer = packing.unpack(await self._run("exchange", packing.pack(request)))
        grants, (stale, life, next_due, rules_known, *rest) = answer[:4], answer[4:]
        repeat, refused, crowded, capped, sites = rest
        new, inherited = packing.unpack_holds(grants, call=self._call, issued_at=issued_at)
        holds = [*self._unheard, *await self._at_home(worker, spiderid, sites, new)]
        self._call += 1
        self._unheard = ()
        self._children.learn(inherited)
        gone, lost = packing.texts(stale), packing.texts(repeat)
        no_room = packing.texts(refused) | frozenset(full)
        self._children.admitted(life, gone | lost | no_room | packing.texts(capped))
        ended = {*map(_token, settles), *map(_token, requeues), *map(_token, releases)}
        self._children.forget(ended - lost - no_room)
        if lost:
            self._unheard = holds
            again = [settle for settle in settles if settle.token in lost]
            repeated = await self.exchange(worker, spiderid, settles=again)
            holds = [*repeated.holds]
            gone, no_room = gone | repeated.stale, no_room | repeated.refused
        return Exchanged(
            holds=holds,
            stale=gone,
            life=life,
            next_due_ms=None if next_due < 0 else next_due,
            rules_known=rules_known,
            refused=no_room,
            is_crowded=True if full else None if crowded < 0 else bool(crowded),
        )

    async def _at_home(
        self, worker: str, spiderid: str, version: bytes, holds: Sequence[Hold]
    ) -> Sequence[Hold]:
        """The holds that were granted under their own site; the others are moved there, unsent."""
        if not version:
            return holds
        sites = self._children.sites
        await sites.follow(version)
        moves = sites.moves(holds)
        if moves:
            request = [*self._caller(worker, spiderid), [], [], [], [], [*moves.values()]]
            await self._run("exchange", packing.pack(request))
        return [hold for hold in holds if hold.token not in moves]

    def _caller(self, worker: str, spiderid: str, want: int = 0) -> list[object]:
        """What every exchange begins with."""
        return [self._call, worker, encode_id(spiderid), min(want, LEASES_PER_CALL), DEADLINE_MS]

    def spill(self, worker: str, spiderid: str, settle: Settle) -> Sequence[Spill]:
        """The links of a settle as records for Kafka.

        Once Kafka has them, settle without these links but with ``spilled``. None come of a hold
        that is in other hands by now.
        """
        inherited = self._children.inherited(settle.token)
        if inherited is None:
            return ()
        return spill(worker, spiderid, settle.token, links=settle.links, inherited=inherited)

    async def put_links(
        self, worker: str, spiderid: str, token: str, links: Sequence[Links]
    ) -> None:
        """Put links below a held page ahead of its settle, however many they are.

        Only a settle that carries the same links again makes sure that a restart of Redis in
        between lost none of them. FrontierFull: Redis has no room for all of them.
        """
        _, is_refused = await self._children.put(worker, spiderid, token, links)
        if is_refused:
            raise FrontierFull

    async def beat(self, worker: str) -> int:
        """Move the worker's deadline; answers the life of Redis."""
        return int(cast(int, await self._run("beat", worker, DEADLINE_MS)))

    async def reconcile(self, worker: str, alive: Collection[str]) -> Sequence[str]:
        """Give back what Redis holds for the worker and the worker does not know.

        Answers the tokens of ``alive`` that Redis does not know: their entries are in other hands.
        """
        here = [*alive, *map(_token, self._unheard)]
        returned, lost = await care.give_back(self._run, worker, here, self._call)
        self._children.forget(returned | lost)
        return sorted(lost)

    async def retire(self, worker: str) -> int:
        """Give back everything Redis holds for the worker, unmarked; it is gone after this."""
        returned, _ = await care.give_back(self._run, worker)
        self._children.clear()
        return len(returned)

    async def blame(self, worker: str, token: str) -> int:
        """Take back the holds of a worker known to be dead; answers how many there were.

        Its successor in the same slot calls this with the token of the entry that the dead one
        was handling (empty: none), which alone gains a death.
        """
        return await care.reap_all(self._run, worker, token)

    # Care, by the redis-monitors.

    async def tend(self) -> Tended:
        """One bounded step: end what is over, reap dead workers, sweep and revisit crawls."""
        return await care.tend(self._run, self._limits)

    async def balance(self, begun: Balance | None = None) -> Balance:
        """Add up the ledgers, some thousand crawls a part; what they leave over is a defect."""
        return await care.balance(self._run, begun)

    async def copy_rules(self, table: ThrottleTable, *, adopt: bool = False) -> bool:
        """Let a throttle table rule; False: it is older than the one in force, or of another node.

        When it returns, all domains that wait are looked at by the new rules.
        """
        copied = await self._run("rules", packing.pack_table(table, adopt=adopt))
        while copied == 1 and await self._run("revise", care.DOMAINS_PER_LOOK):
            pass
        return bool(copied)

    async def agree(self, scope: str, *, by_force: bool = False) -> None:
        """Let limits be kept apart for this; ConfigError where the cluster goes by other words."""
        await agree(self._run, scope, by_force=by_force)

    async def rules(self) -> ThrottleTable | None:
        """The throttle table in force; None before the first."""
        with our_errors():
            blob = await self._redis.get(self._keys.table())
        return packing.unpack_table(blob) if blob else None

    # Questions.

    async def crawl_state(self, crawl: CrawlKey, *, with_domains: bool = True) -> CrawlState | None:
        """The ledger of a crawl's latest run; None where no such crawl is remembered."""
        room = Room() if with_domains else None
        return await state_of(self._run, FrontierKeys.crawl_field(crawl), room)

    async def crawls(
        self, *, spiderid: str | None = None, appid: str | None = None, with_domains: bool = False
    ) -> Sequence[CrawlState]:
        """The crawls that are remembered, of one spider and application if these are given."""
        wanted = ["*" if part is None else encode_id(part) for part in (spiderid, appid)]
        with our_errors():
            names = {
                field.decode()
                async for field, _ in self._redis.hscan_iter(
                    self._keys.names(), match=":".join([*wanted, "*"]), count=1000
                )
            }
        return await states_of(self._run, sorted(names), Room() if with_domains else None)

    async def state(self) -> FrontierState:
        """Counters of the frontier."""
        return packing.frontier_state(packing.unpack(await self._run("glance")))


def _token(named: Settle | Requeue | Release | Hold) -> str:
    return named.token
