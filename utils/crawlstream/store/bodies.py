"""The body store: it keeps whole bodies that are too large for their record.

It is optional (``CRAWLSTREAM_BODY_STORE``), and may be any place that fsspec can write to. A body
is named by its SHA-256, so that a page that is fetched again or found twice is the same object. It
is stored before the record that refers to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor

from crawlstream.errors import ConfigError
from crawlstream.store.store import Store, StoreUnavailable

_THREADS = 4


class BodyStore:
    """Keeps bodies in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._threads = ThreadPoolExecutor(_THREADS, "bodies")

    @classmethod
    def at(cls, url: str) -> BodyStore:
        """Return the store at a URL; raise ConfigError if fsspec cannot write there."""
        try:
            return cls(Store.at(url))
        except ConfigError as error:
            raise ConfigError(f"CRAWLSTREAM_BODY_STORE: {error}") from error

    async def keep(self, body: bytes) -> str:
        """Store a body in a thread and return its URL; raise StoreUnavailable."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.put, body)

    def put(self, body: bytes) -> str:
        """Store a body in this thread and return its URL; raise StoreUnavailable."""
        path = _path(hashlib.sha256(body).hexdigest())
        try:
            self._store.put(path, body)
        except StoreUnavailable as error:
            raise StoreUnavailable(f"the body store: {error}") from error
        return self._store.url(path)


def stored_body(url: str | None, sha256: object) -> bytes | None:
    """Return a body in the store at a URL; None: there is no store, or it does not have it.

    ``sha256`` is its hash in hex, as a record has it. Raise ConfigError, StoreUnavailable.
    """
    if not url or not re.fullmatch("[0-9a-f]{64}", str(sha256)):
        return None
    return Store.at(url).get(_path(str(sha256)))


def _path(name: str) -> str:
    return f"{name[:2]}/{name}"
