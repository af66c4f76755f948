"""Session of one worker: it leases entries, ends leases, and sends heartbeats."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, cast

from crawlstream.errors import FrontierFull
from crawlstream.keys import encode_id
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import (
    ExchangeResult,
    Links,
    Release,
    Requeue,
    SentRequest,
    Settle,
    Spill,
)
from crawlstream.model.partitions.messages import LinkOrigin
from crawlstream.model.throttle_table import SiteReaction, ThrottleRule
from crawlstream.model.web.throttle_groups import GATE, Groups
from crawlstream_frontier.codec.exchange import (
    ExchangeAnswer,
    pack_release,
    pack_requeue,
    pack_sent,
    unpack_leases,
)
from crawlstream_frontier.codec.partitions import unpack_questions
from crawlstream_frontier.codec.spill import pack_spills
from crawlstream_frontier.codec.values import pack, texts, unpack
from crawlstream_frontier.host_sites import HostSites
from crawlstream_frontier.revocation import reap_all, retire_all
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.throttle_rules import ThrottleRules
from crawlstream_frontier.worker.link_packer import LinkPacker

DEADLINE_MS = 30_000
"""Time after its last call when a worker counts as dead; its leases are revoked then."""
LEASES_PER_CALL = 200
"""Entries granted by one script: keeps the longest call near 5 ms."""
NO_SPARES: Mapping[str, int] = MappingProxyType({})


class Reservation(NamedTuple):
    """A request that a site allows without a lease."""

    site: str
    partition: int
    wait_ms: int
    """Time until it may be sent; -1: not soon, -2: the site is blocked or paused."""
    redis_epoch: int
    """Epoch of the grant; a Redis of another epoch may not know it."""
    gate: str
    """Gate that it uses; empty: none."""
    over_at: int
    """When its time is over, by the clock of the frontier, in ms."""


class WorkerSession:
    """The frontier as one worker uses it, under its name and for its spider.

    Every method raises RedisUnavailable when Redis gives no answer; the call may have taken
    effect, and repeating it with the same arguments is safe.
    """

    def __init__(
        self,
        scripts: Scripts,
        worker: str,
        spiderid: str,
        *,
        group: str = "",
        partition: int = 0,
    ) -> None:
        """``group`` is the worker's egress group."""
        self.partition = partition
        """Number of the partition that it calls."""
        self._scripts = scripts
        self._worker = worker
        self._spiderid = spiderid
        self._group = encode_id(group)
        self._sites = HostSites(ThrottleRules(scripts))
        self._children = LinkPacker(scripts, self._sites, worker, spiderid)
        self._call = 1
        self._unheard: Sequence[Lease] = ()
        """Leases of a call that was repeated for some settles, while the repetition failed."""

    async def exchange(
        self,
        *,
        settles: Sequence[Settle] = (),
        requeues: Sequence[Requeue] = (),
        releases: Sequence[Release] = (),
        sent: Sequence[SentRequest] = (),
        want: int = 0,
        spares: Mapping[str, int] = NO_SPARES,
    ) -> ExchangeResult:
        """Report everything that happened and lease up to ``want`` entries.

        ``spares``: most entries to lease without a grant, by the domain of which one is granted.
        One call at a time, of at most 1 000 tokens. After RedisUnavailable the same arguments (and
        more) may be sent again: leases granted by a call whose answer was lost are granted again.
        """
        ends, with_children, full = await self._children.pack(settles)
        request = [
            *self._caller(max(want - len(self._unheard), 0)),
            [pack_sent(each) for each in sent],
            ends,
            with_children,
            [pack_requeue(each) for each in requeues],
            [pack_release(each) for each in releases],
            *((self._group, spares) if spares else (self._group,)),
        ]
        issued_at = time.monotonic()
        answer = ExchangeAnswer.unpack(await self._scripts.run("exchange", pack(request)))
        place = {"call": self._call, "partition": self.partition}
        new, inheritances = unpack_leases(answer, self._spiderid, issued_at=issued_at, **place)
        leases = [*self._unheard, *await self._at_home(answer.sites_version, new)]
        self._call += 1
        self._unheard = ()
        self._children.learn(inheritances)
        gone, lost = texts(answer.stale), texts(answer.repeat)
        no_room = texts(answer.refused) | frozenset(full)
        not_taken = gone | lost | no_room | texts(answer.capped)
        self._children.admitted(answer.redis_epoch, not_taken)
        ended = {*map(_token, settles), *map(_token, requeues), *map(_token, releases)}
        self._children.forget(ended - lost - no_room)
        if lost:
            self._unheard = leases
            repeated = await self.exchange(settles=[each for each in settles if each.token in lost])
            leases = [*repeated.leases, *repeated.spares]
            gone, no_room = gone | repeated.stale, no_room | repeated.refused
        return ExchangeResult(
            **_divided(leases),
            stale=gone,
            redis_epoch=answer.redis_epoch,
            next_due_ms=None if answer.next_due_ms < 0 else answer.next_due_ms,
            rules_known=answer.rules_known,
            refused=no_room,
            is_crowded=True if full else None if answer.crowded < 0 else bool(answer.crowded),
            unconfirmed=unpack_questions(answer.unconfirmed),
            date_ms=answer.date_ms,
        )

    async def _at_home(self, sites_version: bytes, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Return the leases granted under their own site; move the others there, unsent."""
        await self._sites.follow(sites_version)
        moves = self._sites.moves(leases)
        if moves:
            request = [*self._caller(), [], [], [], [], [*moves.values()]]
            await self._scripts.run("exchange", pack(request))
        return [lease for lease in leases if lease.token not in moves]

    def site_of(self, place: str) -> str:
        """Return the site of a URL or host, by the rules that granted the latest leases."""
        return self._sites.site_of(place)

    @property
    def groups(self) -> Groups[ThrottleRule] | None:
        """Return the limits that sites have in common, by the same rules; None: there are none."""
        return self._sites.groups

    async def reserve(
        self, host: str, *, takes_ms: int, within_ms: int, gate: str | None = None
    ) -> Reservation:
        """Reserve the next request to the site of a host, for a request without a lease.

        It may be sent at the returned time, and must be over ``takes_ms`` later. ``gate`` is the
        right one, if the request before was not sent because it had used another one.
        """
        site, spider = self._sites.site_of(host), encode_id(self._spiderid)
        located = "" if gate is None else gate or GATE
        told = await self._scripts.run(
            "reserve", spider, self._group, site, takes_ms, within_ms, located
        )
        wait_ms, redis_epoch, sites_version, used, over_at = unpack(told)
        await self._sites.follow(sites_version)
        if self._sites.site_of(host) != site:
            wait_ms = min(wait_ms, -1)
        return Reservation(site, self.partition, wait_ms, redis_epoch, used.decode(), over_at)

    async def reacted(self, place: Reservation, reaction: SiteReaction) -> None:
        """Report how a site reacted to a reserved request."""
        granted = place.site, place.over_at, place.redis_epoch
        told = reaction.reaction.value, reaction.wait_ms, reaction.until_ms
        await self._scripts.run("reacted", encode_id(self._spiderid), self._group, *granted, *told)

    def _caller(self, want: int = 0) -> list[object]:
        """Return the first arguments of every exchange."""
        spider, most = encode_id(self._spiderid), min(want, LEASES_PER_CALL)
        return [self._call, self._worker, spider, most, DEADLINE_MS]

    def spill(self, settle: Settle) -> Sequence[Spill]:
        """Return the links of a settle as records for Kafka.

        Once Kafka has them, settle without these links but with ``spilled``. Empty for a lease
        that another worker has by now.
        """
        inherited = self._children.inherited(settle.token)
        if inherited is None:
            return ()
        return pack_spills(
            self._worker,
            self._spiderid,
            settle.token,
            links=settle.links,
            inherited=inherited,
        )

    def origin(self, token: str) -> LinkOrigin | None:
        """Return the origin that links of a held page carry to other partitions; None: no links."""
        inherited = self._children.inherited(token)
        return inherited.origin if inherited else None

    async def put_links(self, token: str, links: Sequence[Links]) -> None:
        """Put links below a held page ahead of its settle, regardless of their number.

        Only a settle that carries the same links again makes sure that a restart of Redis in
        between lost none of them. FrontierFull: Redis has no room for all of them.
        """
        if (await self._children.put(token, links)).is_refused:
            raise FrontierFull

    async def beat(self) -> int:
        """Move the worker's deadline; return the epoch of Redis."""
        return int(cast(int, await self._scripts.run("beat", self._worker, DEADLINE_MS)))

    async def reconcile(self, alive: Collection[str]) -> Sequence[str]:
        """Return the leases to the frontier that Redis has for the worker but the worker lost.

        Returns the tokens of ``alive`` that Redis does not know: other workers have their entries.
        """
        here = [*alive, *map(_token, self._unheard)]
        done = await retire_all(self._scripts.run, self._worker, here, self._call)
        self._children.forget(done.returned | done.lost)
        return sorted(done.lost)

    async def retire(self) -> int:
        """Return all leases of the worker to the frontier, unmarked, and remove the worker."""
        done = await retire_all(self._scripts.run, self._worker)
        self._children.clear()
        return len(done.returned)

    async def blame(self, dead: str, token: str) -> int:
        """Revoke the leases of a worker known to be dead; return their number.

        Its successor in the same slot calls this with the token of the entry that the dead one
        was processing (empty: none), which alone gains a death.
        """
        return await reap_all(self._scripts.run, dead, token)


def _divided(leases: Iterable[Lease]) -> dict[str, Any]:
    granted, spares = list[Lease](), list[Lease]()
    for lease in leases:
        (spares if lease.is_spare else granted).append(lease)
    return {"leases": granted, "spares": spares}


def _token(named: Settle | Requeue | Release | Lease) -> str:
    return named.token
