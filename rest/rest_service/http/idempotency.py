"""Repeated requests take effect once: ``Idempotency-Key``."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rest_service.http.envelope import RequestRefused

REMEMBERED_S = 3600.0
REMEMBERED = 10_000
REMEMBERED_BYTES = 64 * 1024 * 1024
"""Limits of the remembered answers; beyond these the oldest are removed."""
_OVERHEAD = 500
"""Approximate bytes of an answer besides its own."""

_Name = tuple[str, str]


@dataclass(frozen=True, slots=True)
class _Answered:
    at: float
    digest: bytes
    answer: bytes

    @property
    def size(self) -> int:
        return len(self.answer) + _OVERHEAD


class IdempotencyStore:
    """Remembers the answers to idempotency keys, for an hour and within bounds.

    A repeated request gets the same answer. Failures are not remembered: they may be retried.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._under_way: dict[_Name, tuple[bytes, asyncio.Future[bytes]]] = {}
        self._known: OrderedDict[_Name, _Answered] = OrderedDict()
        self._bytes = 0

    @property
    def remembered_bytes(self) -> int:
        """Approximate bytes of the remembered answers."""
        return self._bytes

    async def run(
        self, client: str, key: str, body: bytes, work: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        """Do the work, or return its answer; raise RequestRefused (422) if the body differs."""
        self._forget_old()
        name, digest = (client, key), hashlib.sha256(body).digest()
        if known := self._known.get(name):
            _check(known.digest, digest)
            return known.answer
        if name in self._under_way:
            begun, answer = self._under_way[name]
            _check(begun, digest)
            return await asyncio.shield(answer)
        return await self._begin(name, digest, work)

    async def _begin(
        self, name: _Name, digest: bytes, work: Callable[[], Awaitable[bytes]]
    ) -> bytes:
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._under_way[name] = (digest, future)
        try:
            answer = await work()
        except BaseException as error:
            future.set_exception(
                error if isinstance(error, Exception) else RequestRefused(503, "Try again.")
            )
            # Mark the error as retrieved: there may be no other waiter.
            future.exception()
            raise
        finally:
            del self._under_way[name]
        future.set_result(answer)
        self._known[name] = known = _Answered(self._clock(), digest, answer)
        self._bytes += known.size
        self._forget_old()
        return answer

    def _forget_old(self) -> None:
        oldest = self._clock() - REMEMBERED_S
        while self._known:
            known = next(iter(self._known.values()))
            is_much = len(self._known) > REMEMBERED or self._bytes > REMEMBERED_BYTES
            if known.at > oldest and not is_much:
                return
            self._known.popitem(last=False)
            self._bytes -= known.size


def _check(known: bytes, digest: bytes) -> None:
    if known != digest:
        raise RequestRefused(
            422, "This Idempotency-Key was already used with a different body.", code="key_reused"
        )
