"""The body store: where bodies are kept whole that are too large for their record.

Optional (``CRAWLSTREAM_BODY_STORE``), and any place that fsspec can write to. A body is named by
its SHA-256, so that a page that is fetched again, or met twice, is the same object; it is there
before the record that refers to it.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from fsspec.core import url_to_fs
from fsspec.implementations.local import LocalFileSystem

from crawlstream.errors import ConfigError, Unavailable

_THREADS = 4


class StoreUnavailable(Unavailable):
    """The body store does not take a body; the page waits for it."""


class BodyStore:
    """Keeps bodies in a folder of an fsspec file system."""

    def __init__(self, filesystem: Any, folder: str) -> None:
        self._filesystem = filesystem
        self._folder = folder.rstrip("/")
        self._threads = ThreadPoolExecutor(_THREADS, "bodies")

    @classmethod
    def at(cls, url: str) -> BodyStore:
        """The store at a URL; ConfigError where fsspec knows no way to write there."""
        try:
            return cls(*url_to_fs(url))
        except (ImportError, ValueError) as error:
            raise ConfigError(f"CRAWLSTREAM_BODY_STORE: {url!r} cannot be used: {error}") from error

    async def keep(self, body: bytes) -> str:
        """Store a body, in a thread; answers its URL. StoreUnavailable."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._keep, body)

    def _keep(self, body: bytes) -> str:
        name = hashlib.sha256(body).hexdigest()
        path = f"{self._folder}/{name[:2]}/{name}"
        try:
            if isinstance(self._filesystem, LocalFileSystem):
                self._write_file(path, body)
            else:
                self._filesystem.pipe_file(path, body)
        except Exception as error:
            # Each store has errors of its own. Whatever they say, the page must not end without.
            raise StoreUnavailable(f"the body store: {error!r:.200}") from error
        return str(self._filesystem.unstrip_protocol(path))

    def _write_file(self, path: str, body: bytes) -> None:
        """Where a reader could meet half an object, as none can in an object store."""
        self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        unfinished = f"{path}.{uuid.uuid4().hex}"
        self._filesystem.pipe_file(unfinished, body)
        self._filesystem.mv(unfinished, path)
