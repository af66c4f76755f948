"""Revocation of leases: those of a dead worker, and those that a live one has lost."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from crawlstream_frontier.codec.values import pack, texts, unpack
from crawlstream_frontier.scripts import Run

MAX_HOLD_MS = 600_000
"""Even a live worker loses a lease after this."""


@dataclass(frozen=True, slots=True)
class RevokeResult:
    """Leases revoked from a dead worker, if there was one."""

    worker: bytes = b""
    pages: int = 0
    is_over: bool = False
    """The worker has no leases left."""


async def reap(run: Run) -> RevokeResult:
    """Revoke a step of leases of the worker that is longest past its deadline."""
    return await _reap_step(run, "", "")


async def reap_all(run: Run, worker: str, blamed: str) -> int:
    """Revoke all leases of a worker that is known to be dead; return the number of pages."""
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
    """Tokens of a worker's leases that were returned, and of those that it lost."""

    returned: frozenset[str]
    lost: frozenset[str]
    """Tokens alive in the worker whose entries other workers have."""


async def retire_all(
    run: Run, worker: str, alive: Collection[str] | None = None, next_call: int = 0
) -> RetireResult:
    """Return the leases of a worker to the frontier, except those alive in the worker.

    ``alive`` None: none is, and the worker is removed. Leases granted by ``next_call`` or a later
    call stay.
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
