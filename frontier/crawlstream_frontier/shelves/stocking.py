"""Moves chunks between Redis and the shelf in bounded steps."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import structlog

from crawlstream.errors import ConfigError, ShelfUnavailable
from crawlstream_frontier.codec.chunks import pack_chunk, unpack_chunk
from crawlstream_frontier.codec.values import pack, unpack
from crawlstream_frontier.scripts import Scripts, our_errors
from crawlstream_frontier.shelves.shelf import Shelf

SHELVE_FROM = 256
"""Number of entries of a band from which its middle is shelved."""
QUEUES_PER_STEP = 16
LOST_AFTER_S = 5.0
"""Seconds for which a chunk must be missing on the shelf before it counts as lost."""
_FORGET_AFTER_S = 60.0
"""Seconds after which a missing chunk is forgotten: it has come back, or is not needed."""
_PROBED = 1000
"""Number of chunk names that are deleted in one command, whether or not they exist."""
_EMPTY_PROBES = 10
"""Number of consecutive such commands without a chunk after which no more are expected."""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class StockingResult:
    """Result of one step."""

    shelved: int = 0
    """Number of entries that left the lists in Redis."""
    restocked: int = 0
    """Number of entries that are back."""
    lost: int = 0
    """Number of entries that failed because the shelf has lost them."""
    next_ms: int | None = None
    """When the next work is due; None: no work is scheduled."""

    @property
    def is_idle(self) -> bool:
        """True if there was nothing to do."""
        return not (self.shelved or self.restocked or self.lost)


class Stocking:
    """Shelves the middle of long bands and restocks short heads; several instances may run.

    Every method raises RedisUnavailable or ShelfUnavailable if one of them does not answer;
    repeating it is safe.
    """

    def __init__(
        self,
        scripts: Scripts,
        shelf: Shelf | None = None,
        *,
        shelve_from: int = SHELVE_FROM,
        lost_after_s: float = LOST_AFTER_S,
    ) -> None:
        """``shelf`` None: chunks stay in Redis. ``shelve_from`` 0: shelve no further entries."""
        self._scripts = scripts
        self._shelf = shelf
        self._shelve_from = shelve_from
        self._lost_after_s = lost_after_s
        self._name = secrets.token_hex(8)
        """Name of the frontier on the shelf, unless it already has one."""
        self._deleted: Sequence[bytes] = ()
        self._orphans_of = -1
        """The epoch of Redis whose orphans were deleted."""
        self._missing: dict[bytes, float] = {}
        """Chunks that are missing on the shelf, with the time since when."""

    async def step(self) -> StockingResult:
        """Restock short heads, shelve the middle of long bands, delete unused chunks.

        ConfigError: chunks are on another shelf than this.
        """
        address = self._shelf.address if self._shelf else ""
        request = [self._shelve_from, address, self._name, QUEUES_PER_STEP]
        done = [self._deleted, self._orphans_of]
        kind, *answer = unpack(await self._scripts.run("shelve", pack([*request, *done])))
        self._deleted, self._orphans_of = (), -1
        if kind == b"OTHER":
            raise ConfigError(_mismatch(*answer, here=address))
        name, restockings, shelvings, doomed, orphans, next_ms = answer
        self._name = name.decode()
        restocked = lost = 0
        for one in restockings:
            amount = await self._restock(*one)
            restocked, lost = restocked + max(amount, 0), lost + max(-amount, 0)
        self._forget_missing()
        shelved = sum([await self._shelve(*one) for one in shelvings])
        await self._delete(doomed, orphans)
        return StockingResult(
            shelved=shelved,
            restocked=restocked,
            lost=lost,
            next_ms=None if next_ms < 0 else int(next_ms),
        )

    async def read(self, id_: bytes, kept: bytes) -> Sequence[bytes] | None:
        """Return the entries of a chunk, ``kept`` in Redis or on the shelf; None if unavailable."""
        try:
            if not kept and self._shelf:
                with our_errors():
                    name = await self._scripts.redis.hget(self._scripts.keys.shelf(), "name")
                self._name = name.decode() if name else self._name
                kept = await self._shelf.get(self._key(id_)) or b""
            return unpack_chunk(id_, kept) if kept else None
        except (ShelfUnavailable, ValueError):
            return None

    async def _restock(self, *work: Any) -> int:
        """Restock a chunk; return the number of its entries, negative if they are lost."""
        *queue, id_, amount, is_inside, kept = work
        value = kept if is_inside or not self._shelf else await self._shelf.get(self._key(id_))
        entries: Sequence[bytes] = ()
        try:
            if value:
                entries = unpack_chunk(id_, value)
        except ValueError as error:
            log.error("restock", outcome="unreadable", chunk=id_.decode(), error=str(error))  # noqa: TRY400
        if len(entries) != amount:
            since = self._missing.setdefault(id_, time.monotonic())
            if time.monotonic() - since < self._lost_after_s:
                log.warning("restock", outcome="missing", chunk=id_.decode(), pages=amount)
                return 0
            entries = ()
            log.error("restock", outcome="lost", chunk=id_.decode(), pages=amount)
        self._missing.pop(id_, None)
        is_done = await self._scripts.run("restocked", pack([*queue, id_, entries]))
        return int(amount if entries else -amount) if is_done else 0

    async def _shelve(self, *work: Any) -> int:
        """Shelve entries; return their number, 0 if they have changed meanwhile."""
        *queue, is_tail, digest, id_, entries = work
        value, address = pack_chunk(id_, entries), ""
        if self._shelf:
            await self._shelf.put(self._key(id_), value)
            value, address = b"", self._shelf.address
        request = [*queue, is_tail, digest, id_, len(entries), value, address]
        return cast(int, await self._scripts.run("shelved", pack(request))) * len(entries)

    async def _delete(self, doomed: Sequence[bytes], orphans: Sequence[int]) -> None:
        if self._shelf:
            await self._shelf.delete([self._key(id_) for id_ in doomed])
            if orphans:
                await self._delete_orphans(self._shelf, *orphans)
        self._deleted = doomed
        self._orphans_of = orphans[0] if orphans else -1

    async def _delete_orphans(self, shelf: Shelf, epoch: int, last: int) -> None:
        """Delete chunks that Redis, now an older copy, does not know; names are consecutive."""
        empty = 0
        while empty < _EMPTY_PROBES:
            numbers = range(last + 1, last + 1 + _PROBED)
            found = await shelf.delete(
                [self._key(b"%d.%d" % (epoch, number)) for number in numbers]
            )
            empty, last = 0 if found else empty + 1, last + _PROBED

    def _key(self, id_: bytes) -> str:
        return self._scripts.keys.shelved_chunk(self._name, id_.decode())

    def _forget_missing(self) -> None:
        """Forget old missing chunks: restocked by another redis-monitor, or of an ended crawl."""
        long_ago = time.monotonic() - _FORGET_AFTER_S
        self._missing = {id_: since for id_, since in self._missing.items() if since > long_ago}


def _mismatch(address: bytes, chunks: int, *, here: str) -> str:
    there, here = address.decode() or "Redis itself", here or "none"
    return (
        f"{chunks} chunks of waiting pages are on the shelf {there}, but CRAWLSTREAM_SHELF is"
        f" {here}: set it to {there} again until they are crawled"
    )
