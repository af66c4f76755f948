"""Holds that are taken back from workers: from one that is dead, and what a live one has lost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from crawlstream_frontier.codec.values import pack, texts, unpack
from crawlstream_frontier.scripts import Run

MAX_HOLD_MS = 600_000
"""Even a live worker loses a hold after this."""


@dataclass(frozen=True, slots=True)
class RevokeResult:
    """What was taken back from a dead worker, if there was one."""

    worker: bytes = b""
    pages: int = 0
    is_over: bool = False
    """Nothing is left of the worker."""


async def reap(run: Run) -> RevokeResult:
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


async def _reap_step(run: Run, worker: str, blamed: str) -> RevokeResult:
    found, returned, buried, is_more = unpack(await run("reap", worker, blamed))
    return RevokeResult(found, returned + buried, bool(found) and not is_more)


@dataclass(frozen=True, slots=True)
class RetireResult:
    """What was given back of a worker's holds, by token."""

    returned: frozenset[str]
    lost: frozenset[str]
    """Alive there, but in other hands."""


async def retire_all(
    run: Run, worker: str, alive: Collection[str] | None = None, next_call: int = 0
) -> RetireResult:
    """Give back what Redis holds for a worker, but for what is alive there.

    ``alive`` None: nothing is, and the worker is gone after this. What ``next_call`` or a later one
    grants stays.
    """
    if alive is None:
        request: tuple[bytes, int, int] = (b"", 0, 0)
    else:
        request = (pack(list(alive)), next_call, MAX_HOLD_MS)
    returned: frozenset[str] = frozenset()
    while True:
        going, lost, is_more = unpack(await run("retire", worker, *request))
        returned |= texts(going)
        if not is_more:
            return RetireResult(returned, texts(lost))
