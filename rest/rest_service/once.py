"""Doing a thing once, however often it is asked: ``Idempotency-Key``."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable

from rest_service.envelope import Refused

REMEMBERED_S = 3600.0
REMEMBERED = 10_000


class Once:
    """Remembers, for an hour, what was answered under a key; a second try gets that answer.

    What failed is not remembered: it may be tried again.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[tuple[str, str], tuple[float, bytes, asyncio.Future[object]]] = (
            OrderedDict()
        )

    async def run(
        self, client: str, key: str, body: bytes, work: Callable[[], Awaitable[object]]
    ) -> object:
        """Do the work, or answer what it answered; Refused (422) if the body is another one."""
        self._forget_old()
        name, digest = (client, key), hashlib.sha256(body).digest()
        if name in self._known:
            _, known, answer = self._known[name]
            if known != digest:
                raise Refused(
                    422, "This Idempotency-Key came with another body.", code="key_reused"
                )
            return await asyncio.shield(answer)
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._known[name] = (self._clock(), digest, future)
        try:
            answered = await work()
        except BaseException as error:
            self._known.pop(name, None)
            future.set_exception(
                error if isinstance(error, Exception) else Refused(503, "Try again.")
            )
            # Seen: nobody else may be waiting for it.
            future.exception()
            raise
        future.set_result(answered)
        return answered

    def _forget_old(self) -> None:
        oldest = self._clock() - REMEMBERED_S
        while self._known:
            at = next(iter(self._known.values()))[0]
            if at > oldest and len(self._known) < REMEMBERED:
                return
            self._known.popitem(last=False)
