"""Connections that are kept open for a host's next page, no more of them than a process can bear.

Twisted keeps as many as there are hosts, for four minutes each, and remembers every host that it
has ever kept one to: a crawl of many hosts runs out of files first, and of memory later.
"""

from __future__ import annotations

import resource
from typing import Any

from twisted.web.client import HTTPConnectionPool

MOST_KEPT = 1_000
"""Connections kept open, with TLS and without each: enough for hosts visited every few seconds."""
_FILES = 4 * MOST_KEPT
"""Open files that a process needs, including those of downloads in progress and its own."""


class KeptConnections(HTTPConnectionPool):
    """Twisted's pool; when it is full, the connection that has been idle for longest is closed."""

    def __init__(self, reactor: Any, like: HTTPConnectionPool, most: int = MOST_KEPT) -> None:
        """``like`` is the pool as Scrapy sets it up."""
        super().__init__(reactor)  # type: ignore[no-untyped-call]
        self.maxPersistentPerHost = like.maxPersistentPerHost
        self._factory = like._factory  # noqa: SLF001  Scrapy sets it there
        self._most = most
        # Twisted would send a GET a second time, unpaid, when a kept connection turns out dead.
        self.retryAutomatically = False

    def getConnection(self, key: Any, endpoint: Any) -> Any:  # noqa: N802  Twisted's names
        """A connection, made or kept."""
        found = super().getConnection(key, endpoint)
        self._forget_if_empty(key)
        return found

    def _putConnection(self, key: Any, connection: Any) -> None:  # noqa: N802
        super()._putConnection(key, connection)  # type: ignore[no-untyped-call]
        if len(self._timeouts) > self._most:
            # In the order in which they became idle.
            oldest = next(iter(self._timeouts.values()))
            args = oldest.args
            oldest.cancel()
            self._removeConnection(*args)

    def _removeConnection(self, key: Any, connection: Any) -> None:  # noqa: N802
        super()._removeConnection(key, connection)  # type: ignore[no-untyped-call]
        self._forget_if_empty(key)

    def _forget_if_empty(self, key: Any) -> None:
        if not self._connections.get(key, True):
            del self._connections[key]


def allow_files() -> int:
    """Let this process open as many files as it needs, if it may; how many connections to keep."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= soft < _FILES:
        soft = _FILES if hard < 0 else min(_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return MOST_KEPT if soft < 0 else min(MOST_KEPT, soft // 4)
