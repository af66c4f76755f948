"""Maintenance in bounded steps: ends runs, revokes leases of dead workers, sweeps ended crawls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from crawlstream.model.crawl import CrawlKey
from crawlstream_frontier.codec.values import crawl_from, unpack
from crawlstream_frontier.revocation import RevokeResult, reap
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.shelves.stocking import SHELVE_FROM
from crawlstream_frontier.throttle_rules import DOMAINS_PER_LOOK

SWEPT_PER_CALL = 150
"""Keys and domains that one script removes; this and the next limits keep a call below 2 ms."""
SWEEPS_IN_A_ROW = 10
"""Steps of a sweep before other due work is checked."""
ENDINGS_PER_CALL = 25
"""Things of each kind that one step ends."""
ENTRIES_PER_CALL = 100
"""Entries failed in one script."""
RUNS_PER_CALL = 200
"""Runs checked in one script, for progress or for their balance."""
BALANCES_A_PART = 25
"""Consecutive calls that add ledgers up: 5 000 crawls."""
_LONGER_WORKS = ("sweep", "revise", "revisit", "abandon", "watch")
"""Operations that ``tend`` reports as due, in its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierLimits:
    """Times and caps that must agree across the cluster."""

    finish_grace_ms: int = 3_000
    dedupe_ms: int = 600_000
    max_wait_ms: int = 86_400_000
    """Time without progress after which a run's pages fail, unless they are held back; 0:
    never."""
    most_queued_of_crawl: int = 0
    """Entries of one crawl that may wait; 0: any number."""
    most_queued: int = 0
    """Entries that may wait in all; 0: any number."""
    shelve_from: int = SHELVE_FROM
    """Entries of a band from which on its middle is shelved; 0: never."""

    def shared_by(self, partitions: int) -> FrontierLimits:
        """Return the limits of each partition: each has an equal share of the caps."""
        return replace(
            self,
            most_queued_of_crawl=_share(self.most_queued_of_crawl, partitions),
            most_queued=_share(self.most_queued, partitions),
        )


def _share(cap: int, partitions: int) -> int:
    """Return a partition's share of a cap; 0 stays 0, which means no cap."""
    return max(cap // partitions, 1) if cap else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """Residuals of the ledgers, as far as they were added up."""

    found: Mapping[CrawlKey | None, int]
    """Residual by crawl, where it is not 0. Under None: number of held pages by the ledgers less
    the number by the workers."""
    cursor: bytes
    """Cursor of the next part."""
    longest_wait_ms: int = 0
    """Longest time without progress of a crawl, among those with queued pages that are not
    paused."""

    @property
    def is_whole(self) -> bool:
        """Return True if all crawls were checked."""
        return self.cursor == b"0"


@dataclass(frozen=True, slots=True, kw_only=True)
class MaintenanceResult:
    """Result of one step."""

    ended: int
    reaped: int
    more: bool
    """There is work left that is due now."""
    next_ms: int | None
    """Time until the next work falls due; None: nothing is waiting for its time."""


class FrontierMaintenance:
    """Maintenance of the frontier by redis-monitors; any number of them may run.

    Every method raises RedisUnavailable when Redis gives no answer; repeating it is safe.
    """

    def __init__(self, scripts: Scripts, limits: FrontierLimits | None = None) -> None:
        self._scripts = scripts
        self._limits = limits or FrontierLimits()

    async def tend(self) -> MaintenanceResult:
        """End what is due, reap one dead worker, and do a step of each longer work."""
        answer = await self._scripts.run(
            "tend",
            self._limits.finish_grace_ms,
            self._limits.dedupe_ms,
            ENDINGS_PER_CALL,
            self._limits.most_queued_of_crawl,
            self._limits.most_queued,
        )
        ended, dead, *due, next_ms, is_more = unpack(answer)
        reaped = await reap(self._scripts.run) if dead else RevokeResult()
        sizes = _sizes(self._limits)
        left = 0
        for operation, is_due in zip(_LONGER_WORKS, due, strict=True):
            if is_due:
                left += await self._work(operation, sizes[operation])
        return MaintenanceResult(
            ended=ended,
            reaped=int(reaped.is_over),
            more=bool(is_more or reaped.worker or left),
            next_ms=None if next_ms < 0 else int(next_ms),
        )

    async def _work(self, operation: str, sizes: Sequence[int]) -> int:
        """Do a step of a longer work, or several of a sweep; return whether any is left."""
        left = 0
        for _ in range(SWEEPS_IN_A_ROW if operation == "sweep" else 1):
            left = int(cast(int, await self._scripts.run(operation, *sizes)))
            if not left:
                break
        return left

    async def balance(self, begun: Balance | None = None) -> Balance:
        """Add up the ledgers of some thousand crawls, from the cursor of ``begun``.

        A residual is a bug.
        """
        found = dict(begun.found) if begun else {}
        cursor = begun.cursor if begun else b"0"
        longest_ms = begun.longest_wait_ms if begun else 0
        for _ in range(BALANCES_A_PART):
            so_far = sum(map(abs, found.values()))
            cursor, flat, waited_ms = unpack(
                await self._scripts.run("balance", cursor, RUNS_PER_CALL, so_far)
            )
            for name, residual in zip(flat[::2], flat[1::2], strict=True):
                found[crawl_from(name) if name else None] = residual
            longest_ms = max(longest_ms, int(waited_ms))
            if cursor == b"0":
                break
        return Balance(found=found, cursor=cursor, longest_wait_ms=longest_ms)


def _sizes(limits: FrontierLimits) -> Mapping[str, Sequence[int]]:
    """The arguments of the longer works."""
    return {
        "sweep": (SWEPT_PER_CALL,),
        "revise": (DOMAINS_PER_LOOK,),
        "revisit": (DOMAINS_PER_LOOK,),
        "abandon": (DOMAINS_PER_LOOK, ENTRIES_PER_CALL),
        "watch": (limits.max_wait_ms, RUNS_PER_CALL),
    }
