"""Thread that reads the node again whenever it may have changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic

import structlog
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KazooState

from crawlstream.errors import BadTable
from crawlstream.zoo.client import OPERATION_TIMEOUT_S, close_client, make_client
from crawlstream.zoo.node import Node, Table

READ_EVERY_S = 30.0
"""Interval without events, as a safeguard: watches and new connections cause events."""

RETRY_PAUSE_S = 0.5
SILENCE_ALARM_S = 10.0

log = structlog.get_logger()


class NodeWatcher(threading.Thread, Generic[Table]):
    """Reports each version of the node that it sees, once.

    kazoo's own DataWatch is not used: it blocks indefinitely while ZooKeeper is down, its threads
    end with an expired session, and it calls a function again that raises a TypeError.
    """

    def __init__(
        self, hosts: Sequence[str], node: Node[Table], tell: Callable[[Table | BadTable], None]
    ) -> None:
        super().__init__(name=f"watch-{node.event}", daemon=True)
        self._client = make_client(hosts)
        self._node = node
        self._tell = tell
        self._stir = threading.Event()
        self._stopping = threading.Event()
        self._told: object = None
        self._heard_at = time.monotonic()
        self._is_silent = False

    @property
    def is_connected(self) -> bool:
        """Return whether the session is alive, as far as the client knows."""
        return bool(self._client.connected)

    def finish(self) -> None:
        """End the thread; ``join`` waits for it."""
        self._stopping.set()
        self._stir.set()

    def run(self) -> None:
        """Read, then wait for a reason to read again."""
        self._client.add_listener(self._note_state)
        self._client.start_async()
        try:
            while not self._stopping.is_set():
                # Cleared before reading: an event during the read is a reason to read again.
                self._stir.clear()
                self._stir.wait(READ_EVERY_S if self._read() else RETRY_PAUSE_S)
        finally:
            close_client(self._client)

    def _read(self) -> bool:
        """Report the node's version if it is new; return False if ZooKeeper did not answer."""
        if not self._client.connected:
            self._note_silence()
            return False
        try:
            self._look()
        except (KazooException, KazooTimeoutError) as error:
            log.info(self._node.event, outcome="waiting", error=repr(error))
            self._note_silence(
                f"; last error: {error!r}" if isinstance(error, KazooException) else ""
            )
            return False
        self._heard_at = time.monotonic()
        if self._is_silent:
            self._is_silent = False
            log.info(self._node.event, outcome="zookeeper_back")
        return True

    def _look(self) -> None:
        try:
            data, stat = self._client.get_async(self._node.path, watch=self._note_event).get(
                timeout=OPERATION_TIMEOUT_S
            )
        except NoNodeError:
            seen = self._client.exists_async(self._node.path, watch=self._note_event)
            if seen.get(timeout=OPERATION_TIMEOUT_S) is None:
                self._tell_once(None, BadTable(f"node {self._node.path} does not exist"))
            else:
                self._stir.set()
            return
        version = (stat.czxid, stat.mzxid)
        if version != self._told:
            self._tell_once(version, self._parse(data, *version))

    def _parse(self, data: bytes, czxid: int, mzxid: int) -> Table | BadTable:
        try:
            return self._node.parse(data, czxid, mzxid)
        except BadTable as error:
            return error

    def _tell_once(self, version: object, what: Table | BadTable) -> None:
        # The first report may be that the node is missing, so its version must differ from None.
        version = version or "missing"
        if version != self._told:
            self._told = version
            self._tell(what)

    def _note_silence(self, why: str = "") -> None:
        silent_s = time.monotonic() - self._heard_at
        if silent_s > SILENCE_ALARM_S and not self._is_silent:
            self._is_silent = True
            log.error(
                self._node.event,
                outcome="zookeeper_silent",
                error=(
                    f"the {self._node.what} could not be read for {silent_s:.0f} s{why}; the last"
                    " known ones stay active"
                ),
            )

    def _note_event(self, _: object) -> None:
        self._stir.set()

    def _note_state(self, state: str) -> None:
        """Request a new read; runs on the connection's own thread, which must not be blocked."""
        if state in (KazooState.CONNECTED, KazooState.SUSPENDED):
            self._stir.set()
