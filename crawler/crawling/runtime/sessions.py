"""The sessions of a worker, one with each partition; most frontiers have one partition.

Each session has its own lease loop, heartbeat and wake-ups, as each partition has its own clock,
deadline and epoch. The sessions share slots, pages and the processing of a page.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import structlog

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.metrics import Meter
from crawling.page.flight_recorder import Crash
from crawling.publish.deadlines import Deadlines
from crawling.robots.screen import Screening
from crawling.runtime.clients import Clients
from crawling.runtime.lease_keeper import LeaseKeeper
from crawling.runtime.lease_loop import LeaseLoop, Shared
from crawlstream.errors import RedisUnavailable
from crawlstream_frontier.wake import Sleeper
from crawlstream_frontier.worker.session import WorkerSession

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Session:
    """The session of a worker with one partition, and its tasks."""

    session: WorkerSession
    loop: LeaseLoop
    keeper: LeaseKeeper
    sleeper: Sleeper


class Sessions:
    """All sessions of one worker, used together."""

    def __init__(self, sessions: Sequence[_Session], shared: Shared) -> None:
        self._sessions = sessions
        self.ready = shared.ready
        """Pages that may be fetched."""
        self.news = shared.turns.news
        """Function to call when there is something to report or a slot has become free."""
        self._exchanging: list[asyncio.Task[None]] = []

    @classmethod
    def of(
        cls,
        clients: Clients,
        leases: Leases,
        screen: Screening,
        deadlines: Deadlines,
        *,
        meter: Meter,
        may_lease: Callable[[], bool],
    ) -> Self:
        """Create the sessions; ``may_lease`` returns whether this process can take more pages."""
        sleepers = clients.sleepers
        shared = Shared(
            ready=asyncio.Queue(),
            meter=meter,
            may_lease=may_lease,
            on_unconfirmed=clients.labelling.request if clients.labelling else None,
        )
        loops = [
            LeaseLoop(session, leases, screen, sleeper, shared=shared)
            for session, sleeper in zip(clients.sessions, sleepers, strict=True)
        ]
        keepers = [LeaseKeeper(session, leases, deadlines) for session in clients.sessions]
        together = zip(clients.sessions, loops, keepers, sleepers, strict=True)
        return cls([_Session(*each) for each in together], shared)

    def drain(self) -> None:
        """Lease nothing more, and release the pages that are not sent."""
        for each in self._sessions:
            each.loop.drain()

    async def blame(self, crash: Crash) -> None:
        """Take back the leases of a dead worker from each partition that answers.

        An unavailable partition revokes them by itself after the worker's deadline.
        RedisUnavailable if the only partition is unavailable.
        """
        for each in self._sessions:
            is_there = each.session.partition == crash.partition
            told = {"worker": crash.worker, "token": crash.token}
            try:
                returned = await each.session.blame(crash.worker, crash.token if is_there else "")
                log.warning("blame", **told, returned=returned)
            except RedisUnavailable as error:
                if len(self._sessions) == 1:
                    raise
                log.warning("blame", **told, outcome="no_answer", error=str(error))

    async def start(self, tasks: Tasks, on_beat: Callable[[], None]) -> None:
        """Begin to lease; ``on_beat`` is called after each beat."""
        for each in self._sessions:
            await each.sleeper.start()
        self._exchanging = [tasks.keep(each.loop.run()) for each in self._sessions]
        for each in self._sessions:
            tasks.keep(_beat(each.keeper, on_beat))

    async def finish(self, within_s: float) -> None:
        """Send all pending reports, for at most ``within_s`` seconds."""
        for each in self._sessions:
            each.loop.finish()
        if self._exchanging:
            await asyncio.wait(self._exchanging, timeout=within_s)

    async def retire(self, worker: str) -> None:
        """Release the remaining leases."""
        for each in self._sessions:
            await each.sleeper.stop()
            try:
                returned = await each.session.retire()
                log.info("stop", worker=worker, returned=returned)
            except RedisUnavailable as error:
                log.warning("stop", worker=worker, outcome="not_retired", error=str(error))


async def _beat(keeper: LeaseKeeper, on_beat: Callable[[], None]) -> None:
    while True:
        await asyncio.sleep(await keeper.beat())
        on_beat()
