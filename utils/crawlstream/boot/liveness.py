"""State of one piece of work for health: it goes on, waits for a service, or is stuck."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from crawlstream.errors import FrontierFull, Unavailable
from crawlstream.retry import Backoff, until_available

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.1, 5.0
STUCK_S = 60.0
"""Time without a beat after which the work counts as dead: each of its steps is bounded."""

_WORTH_WAITING = (Unavailable, FrontierFull, RedisConnectionError, RedisTimeoutError)

log = structlog.get_logger()
T = TypeVar("T")


def _nothing() -> None:
    """Neither pause nor resume anything."""


class Liveness:
    """State of one piece of work for health; it beats while it waits for services, too.

    Several steps of it may run at the same time. ``pause`` is called when the first of them begins
    to wait, ``resume`` when none waits any more.
    """

    def __init__(
        self,
        name: str,
        *,
        pause: Callable[[], None] = _nothing,
        resume: Callable[[], None] = _nothing,
    ) -> None:
        self.name = name
        self._waits: dict[object, str] = {}
        """Services that delay it, one for each step that waits."""
        self._pause = pause
        self._resume = resume
        self._beat_at = time.monotonic()

    @property
    def waiting_for(self) -> str:
        """Return the service that delays it, "" if none does."""
        return next(iter(self._waits.values()), "")

    def beat(self, *, ahead_s: float = 0) -> None:
        """Live: the next beat follows soon, or ``ahead_s`` later than that."""
        self._beat_at = time.monotonic() + ahead_s

    @property
    def is_stuck(self) -> bool:
        """Return whether only a restart of the process helps."""
        return time.monotonic() - self._beat_at > STUCK_S

    async def retry(self, step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step until the services that it needs answer; other errors go up at once."""
        call = object()

        async def attempt() -> T:
            self.beat()
            return await step()

        def note(error: Exception, pause_s: float) -> None:
            self._wait_for(call, str(error))
            log.warning(self.name, outcome="waiting", error=str(error), pause_s=pause_s)

        try:
            return await until_available(
                attempt,
                backoff=Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S),
                on_wait=note,
                errors=_WORTH_WAITING,
            )
        finally:
            self._wait_no_more(call)

    def _wait_for(self, call: object, service: str) -> None:
        if not self._waits:
            self._pause()
        self._waits[call] = service

    def _wait_no_more(self, call: object) -> None:
        if self._waits.pop(call, None) is not None and not self._waits:
            self._resume()
