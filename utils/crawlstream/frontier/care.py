"""Care of the frontier in bounded steps: what is over ends, what is dead is taken back or swept."""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

from crawlstream.frontier import packing
from crawlstream.model.crawl import CrawlKey

SWEPT_PER_CALL = 150
"""Keys and domains that one script removes; this and what follows keep a call below 2 ms of CPU."""
SWEEPS_IN_A_ROW = 10
"""Steps of a sweep between two looks at what else is due."""
DOMAINS_PER_LOOK = 200
"""Domains looked at again in one script when a rule changed; bands, when a crawl was moved."""
ENDINGS_PER_CALL = 25
"""Things of each kind that one step ends."""
ENTRIES_PER_CALL = 100
"""Entries given up in one script."""
RUNS_PER_CALL = 200
"""Runs looked at in one script, whether anything happens in them, or whether they add up."""
BALANCES_A_PART = 25
"""Calls in a row that add ledgers up: 5 000 crawls."""
MAX_HOLD_MS = 600_000
"""Even a live worker loses a hold after this."""
_LONGER_WORKS = ("sweep", "revise", "revisit", "abandon", "watch")
"""Operations that ``tend`` reports as due, in its order."""


class Run(Protocol):
    """Runs one operation; see ``Scripts.run``."""

    def __call__(self, operation: str, *args: str | bytes | int) -> Awaitable[object]:
        """What the script returns."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierLimits:
    """Times and caps that must agree across the cluster."""

    finish_grace_ms: int = 3_000
    dedupe_ms: int = 600_000
    max_wait_ms: int = 86_400_000
    """A run in which nothing happens for so long, though no person holds it back, is given up; 0:
    never."""
    most_queued_of_crawl: int = 0
    """Entries of one crawl that may wait; 0: any number."""
    most_queued: int = 0
    """Entries that may wait in all; 0: any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Balance:
    """What the equations of the ledgers leave over, as far as they were added up."""

    found: Mapping[CrawlKey | None, int]
    """Residual by crawl, where it is not 0. Under None: how many more pages are held by the ledgers
    than by the workers."""
    cursor: bytes
    """Where the next part begins."""
    longest_wait_ms: int = 0
    """How long nothing has happened in the crawl that waits longest, among those with queued pages
    that nobody has paused."""

    @property
    def is_whole(self) -> bool:
        """Whether all crawls were looked at."""
        return self.cursor == b"0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tended:
    """What one step of care did."""

    ended: int
    reaped: int
    more: bool
    """There is work left that is due now."""
    next_ms: int | None
    """When the next thing falls due; None: nothing is waiting for its time."""


async def tend(run: Run, limits: FrontierLimits) -> Tended:
    """End what is over, reap one dead worker, and take a step of each longer work."""
    answer = packing.unpack(
        await run(
            "tend",
            limits.finish_grace_ms,
            limits.dedupe_ms,
            ENDINGS_PER_CALL,
            limits.most_queued_of_crawl,
            limits.most_queued,
        )
    )
    ended, dead, *due, next_ms, is_more = answer
    reaped = await reap(run) if dead else Reaped()
    sizes = _sizes(limits)
    left = 0
    for operation, is_due in zip(_LONGER_WORKS, due, strict=True):
        if is_due:
            left += await _work(run, operation, sizes[operation])
    return Tended(
        ended=ended,
        reaped=int(reaped.is_over),
        more=bool(is_more or reaped.worker or left),
        next_ms=None if next_ms < 0 else int(next_ms),
    )


@dataclass(frozen=True, slots=True)
class Reaped:
    """What was taken back from a dead worker, if there was one."""

    worker: bytes = b""
    pages: int = 0
    is_over: bool = False
    """Nothing is left of the worker."""


async def reap(run: Run) -> Reaped:
    """Take a step back from the worker that is longest past its deadline."""
    return await _reap_step(run, "", "")


async def reap_all(run: Run, worker: str, blamed: str) -> int:
    """Take everything back from a worker that is known to be dead; answers how many pages."""
    pages = 0
    while True:
        step = await _reap_step(run, worker, blamed)
        pages += step.pages
        if step.is_over:
            return pages


async def _reap_step(run: Run, worker: str, blamed: str) -> Reaped:
    found, returned, buried, is_more = packing.unpack(await run("reap", worker, blamed))
    return Reaped(found, returned + buried, bool(found) and not is_more)


async def give_back(
    run: Run, worker: str, alive: Collection[str] | None = None, next_call: int = 0
) -> tuple[frozenset[str], frozenset[str]]:
    """Give back what Redis holds for a worker, but for what is alive there.

    Answers the tokens that were given back, and those alive that are in other hands. None: nothing
    is, and the worker is gone after this. What ``next_call`` or a later one grants stays.
    """
    if alive is None:
        request: tuple[bytes, int, int] = (b"", 0, 0)
    else:
        request = (packing.pack(list(alive)), next_call, MAX_HOLD_MS)
    returned: frozenset[str] = frozenset()
    while True:
        going, lost, is_more = packing.unpack(await run("retire", worker, *request))
        returned |= packing.texts(going)
        if not is_more:
            return returned, packing.texts(lost)


async def _work(run: Run, operation: str, sizes: Sequence[int]) -> int:
    """Take a step of a longer work, or several of a sweep; answers whether any is left."""
    left = 0
    for _ in range(SWEEPS_IN_A_ROW if operation == "sweep" else 1):
        left = int(cast(int, await run(operation, *sizes)))
        if not left:
            break
    return left


def _sizes(limits: FrontierLimits) -> Mapping[str, Sequence[int]]:
    """The arguments of the longer works."""
    return {
        "sweep": (SWEPT_PER_CALL,),
        "revise": (DOMAINS_PER_LOOK,),
        "revisit": (DOMAINS_PER_LOOK,),
        "abandon": (DOMAINS_PER_LOOK, ENTRIES_PER_CALL),
        "watch": (limits.max_wait_ms, RUNS_PER_CALL),
    }


async def balance(run: Run, begun: Balance | None = None) -> Balance:
    """Add up the ledgers of some thousand crawls, from where ``begun`` came to."""
    found = dict(begun.found) if begun else {}
    cursor = begun.cursor if begun else b"0"
    longest_ms = begun.longest_wait_ms if begun else 0
    for _ in range(BALANCES_A_PART):
        so_far = sum(map(abs, found.values()))
        answer = packing.unpack(await run("balance", cursor, RUNS_PER_CALL, so_far))
        cursor, flat, waited_ms = answer
        for name, residual in zip(flat[::2], flat[1::2], strict=True):
            found[packing.crawl_from(name) if name else None] = residual
        longest_ms = max(longest_ms, int(waited_ms))
        if cursor == b"0":
            break
    return Balance(found=found, cursor=cursor, longest_wait_ms=longest_ms)
