"""The thread that owns the consumer: reads as long as there is room, obeys in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from functools import partial
from queue import Empty, SimpleQueue

import structlog
from kafka.errors import RetriableError

from crawlstream.bus.access.refusals import refusal_of
from crawlstream.bus.consumer_session import BatchesRead, ConsumerSession
from crawlstream.errors import KafkaRefused, KafkaUnavailable
from crawlstream.retry import Backoff

POLL_MS = 100
"""Longest wait inside Kafka's client, and so for a command to be obeyed."""

COMMIT_EVERY_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
HEALTHY_AFTER_S = 30.0
"""Minimum age of a session after which the next pause is the shortest one again."""
REFUSED_FOR_S = 15.0
"""Time for which a refusal is reported; one that persists occurs again earlier."""
SILENT_AFTER_S = 10.0
"""Time without a connection after which Kafka counts as unavailable; reconnecting takes less."""

log = structlog.get_logger()
Command = Callable[[ConsumerSession], None]


class Reader(threading.Thread):
    """Runs one session after the other until it is stopped; a new one after each failure.

    A consumer that raised anything unexpected is never polled again: after a batch that it cannot
    unpack, kafka-python's would loop permanently. ``open_session`` makes the next one.
    """

    def __init__(
        self,
        open_session: Callable[[], ConsumerSession],
        tell: Callable[[BatchesRead], None],
        *,
        polls: int,
    ) -> None:
        """``polls`` may wait to be taken."""
        super().__init__(name="kafka-reader", daemon=True)
        self._open_session = open_session
        self._tell = tell
        self._inbox: SimpleQueue[Command] = SimpleQueue()
        self._room = threading.Semaphore(polls)
        self._has_room = False
        self._stopping = threading.Event()
        self._is_paused = False
        self._lock = threading.Lock()
        self._to_commit: dict[int, int] = {}
        self._committed_at = 0.0
        self._connected_at = time.monotonic()
        self._is_said = False
        self._lacked_since: float | None = None
        self._refusal = ""
        self._refused_at = 0.0

    @property
    def lacks_topic(self) -> bool:
        """Return whether Kafka has had no such topic for a while."""
        since = self._lacked_since
        return since is not None and time.monotonic() - since > SILENT_AFTER_S

    @property
    def refusal(self) -> str:
        """Return the last refusal as a sentence while it is recent; else nothing."""
        is_fresh = time.monotonic() - self._refused_at < REFUSED_FOR_S
        return self._refusal if is_fresh else ""

    @property
    def is_waiting(self) -> bool:
        """Return whether Kafka has been unavailable for a while."""
        return time.monotonic() - self._connected_at > SILENT_AFTER_S

    def place(self, partition: int, epoch: int, offset: int | None) -> None:
        """Have a partition read on from ``offset``, None: from its oldest record."""
        self._inbox.put(partial(self._place, partition=partition, epoch=epoch, offset=offset))

    def halt(self, partition: int, epoch: int) -> None:
        """Have nothing of a partition fetched until it is placed."""
        self._inbox.put(lambda session: session.halt(partition, epoch))

    def hold(self, on: bool) -> None:  # noqa: FBT001  a switch
        """Fetch nothing, or fetch again."""
        self._is_paused = on

    def commit(self, positions: Mapping[int, int]) -> None:
        """Have positions told to Kafka, about once a second."""
        with self._lock:
            self._to_commit.update(positions)

    def taken(self) -> None:
        """Note that the batches of one poll have been taken: there is room for another."""
        self._room.release()

    def finish(self) -> None:
        """End the thread; ``join`` waits for it."""
        self._stopping.set()

    def run(self) -> None:
        """Open sessions until told to finish."""
        backoff = Backoff(FIRST_PAUSE_S, LONGEST_PAUSE_S)
        while not self._stopping.is_set():
            since = time.monotonic()
            try:
                self._run_session()
            except KafkaUnavailable as error:
                self._note_refusal(error)
                log.warning("poll", outcome="waiting", error=str(error))
            except Exception as error:
                if refused := self._note_refusal(error):
                    log.warning("poll", outcome="waiting", error=str(refused))
                else:
                    log.exception("poll", outcome="consumer_replaced", error=repr(error))
            if time.monotonic() - since > HEALTHY_AFTER_S:
                backoff.reset()
            self._stopping.wait(next(backoff))

    def _note_refusal(self, error: Exception) -> KafkaRefused | None:
        refused = refusal_of(error)
        if refused:
            self._refusal, self._refused_at = str(refused), time.monotonic()
        return refused

    def _run_session(self) -> None:
        session = self._open_session()
        try:
            while not self._stopping.is_set():
                self._obey(session)
                session.announce()
                self._read(session)
                self._note(session)
        finally:
            session.close(self._take_commit())

    def _read(self, session: ConsumerSession) -> None:
        if not self._has_room:
            self._has_room = self._room.acquire(timeout=POLL_MS / 1000)
        session.fetch(self._has_room and not self._is_paused)
        # Polls without room, too: otherwise the group would consider this member dead.
        batches = session.read(POLL_MS if self._has_room else 0)
        if batches:
            self._has_room = False
            self._tell(BatchesRead(batches))

    def _note(self, session: ConsumerSession) -> None:
        """Say once that Kafka is waited for, and once that it is back."""
        if session.is_connected:
            self._connected_at = time.monotonic()
        if refused := session.refusal:
            self._note_refusal(refused)
        if not session.lacks_topic:
            self._lacked_since = None
        elif self._lacked_since is None:
            self._lacked_since = time.monotonic()
        if self._is_said == self.is_waiting:
            return
        self._is_said = self.is_waiting
        if self._is_said:
            log.warning("poll", outcome="waiting", error="Kafka does not answer")
        else:
            log.info("poll", outcome="kafka_back")

    def _obey(self, session: ConsumerSession) -> None:
        for _ in range(self._inbox.qsize()):
            try:
                command = self._inbox.get_nowait()
            except Empty:
                break
            command(session)
        if self._to_commit and time.monotonic() - self._committed_at > COMMIT_EVERY_S:
            session.commit(self._take_commit())
            self._committed_at = time.monotonic()

    def _place(
        self, session: ConsumerSession, *, partition: int, epoch: int, offset: int | None
    ) -> None:
        try:
            session.place(partition, epoch, offset)
        except RetriableError as error:
            log.info("poll", outcome="waiting", partition=partition, error=str(error))
            self.place(partition, epoch, offset)

    def _take_commit(self) -> dict[int, int]:
        with self._lock:
            positions, self._to_commit = self._to_commit, {}
        return positions
