"""The flight recorder: which page was on the CPU when this process died.

A small file, mapped into memory, in a slot of its own under the home folder. What is written
there outlives the process, however it ends; the next crawler that takes the slot, or finds it
abandoned, reports it. So a page that kills its worker (a decompression, a regular expression, a
parser) is distinguished from the two hundred that were merely leased at the time.

The slot is locked while its process lives; the kernel gives the lock back when it dies.
"""

from __future__ import annotations

import asyncio
import fcntl
import inspect
import mmap
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from crawling.page.page import Page

_SIZE = 1024
_TOKEN_AT = 512
_SLOTS = 256
"""Crawler processes of one spider that share a home."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Crash:
    """Content of an abandoned recorder: the worker that died, and the lease that it handled."""

    worker: str
    token: str
    """Empty if nothing was on the CPU."""
    partition: int = 0
    """Partition of the frontier that issued the token."""


class FlightRecorder:
    """Notes the lease whose response is being handled, for the process that follows a crash."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = name
        self._fd = -1
        self._map: mmap.mmap | None = None

    def open(self, worker: str) -> list[Crash]:
        """Take a slot for this worker; return the content of abandoned slots of its kind.

        Dying before it is reported loses the blame, never the page: the deadline frees that.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        crashes = []
        for path in self._slots():
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if not _lock(fd):
                os.close(fd)
                continue
            if crash := _read(fd):
                crashes.append(crash)
            if self._map is None:
                self._take(fd, worker)
            else:
                os.ftruncate(fd, 0)
                os.close(fd)
        return crashes

    def _slots(self) -> Iterator[Path]:
        """Slots that exist, and the first free number after them."""
        for number in range(_SLOTS):
            path = self._folder / f"{self._name}.{number}"
            if path.exists() or self._map is None:
                yield path

    def _take(self, fd: int, worker: str) -> None:
        os.ftruncate(fd, _SIZE)
        self._fd, self._map = fd, mmap.mmap(fd, _SIZE)
        self._write(_TOKEN_AT, "")
        self._write(0, worker)

    def close(self) -> None:
        """An orderly end: nothing to report, and the slot is free."""
        if self._map is not None:
            self._write(_TOKEN_AT, "")
            self._write(0, "")
            self._map.close()
            os.close(self._fd)
            self._map = None

    def note(self, page: Page) -> None:
        """The page's response is on the CPU from now on."""
        self._write(_TOKEN_AT, f"{page.token} {page.lease.partition}")
        page.cpu_s -= time.thread_time()

    def clear(self, page: Page) -> None:
        """It is not any more: nothing is that could be blamed."""
        page.cpu_s += time.thread_time()
        self._write(_TOKEN_AT, "")

    @contextmanager
    def noting(self, page: Page) -> Iterator[None]:
        """Note the page for the length of the block."""
        self.note(page)
        try:
            yield
        finally:
            self.clear(page)

    async def watched(self, page: Page, items: AsyncIterator[T]) -> AsyncIterator[T]:
        """The items, each step of making them noted while it is really on the CPU."""
        while True:
            try:
                item = await _Noted(self, page, items.__anext__)
            except StopAsyncIteration:
                return
            yield item

    def call(self, page: Page, callback: Callable[..., Any], *args: Any, **named: Any) -> Any:
        """Call what a user has written, noted while it is on the CPU; also what it has awaited."""
        with self.noting(page), exits_contained():
            came = callback(*args, **named)
        return self._awaited(page, came) if inspect.iscoroutine(came) else came

    async def _awaited(self, page: Page, came: Awaitable[T]) -> T:
        found: T = await _Noted(self, page, lambda: came)
        return found

    def _write(self, at: int, text: str) -> None:
        """The length comes last: a death in between leaves the old text or none."""
        if self._map is None:
            return
        data = text.encode()[: _SIZE - _TOKEN_AT - 2]
        self._map[at : at + 2] = b"\0\0"
        self._map[at + 2 : at + 2 + len(data)] = data
        self._map[at : at + 2] = len(data).to_bytes(2, "big")


class exits_contained:  # noqa: N801  a block, as contextmanager() makes them
    """Turn what would end the process, or the task, into an error of the page: RuntimeError.

    Otherwise it would end the next process that leases the page as well, or leave the page without
    an end. A cancellation by crawlstream stays a cancellation.
    """

    def __enter__(self) -> None:
        """Begin the block."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        """End the block; RuntimeError if it was left by something other than an Exception."""
        if error is None or isinstance(error, Exception):
            return
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                return
        raise RuntimeError(f"the spider {_said(error)}") from error


def _said(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"called exit({error.code})"
    name = f"raised {type(error).__name__}"
    return f"{name}: {error}" if str(error) else name


class _Noted:
    """Awaits something, noting the page while it runs and not while it waits."""

    def __init__(self, recorder: FlightRecorder, page: Page, begin: Callable[[], Any]) -> None:
        self._recorder = recorder
        self._page = page
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._begin().__await__()
        resume: Callable[[], Any] = steps.__next__
        while True:
            self._recorder.note(self._page)
            try:
                with exits_contained():
                    waits_for = resume()
            except StopIteration as end:
                return end.value
            finally:
                self._recorder.clear(self._page)
            try:
                value = yield waits_for
            except GeneratorExit:
                # Raised here, where nothing waits any more. One raised by resume() is the spider's.
                with self._recorder.noting(self._page):
                    steps.close()
                raise
            except BaseException as error:  # noqa: BLE001  handed to whom it is meant for
                resume = _throw(steps, error)
            else:
                resume = _send(steps, value)


def _throw(steps: Generator[Any, Any, Any], error: BaseException) -> Callable[[], Any]:
    return lambda: steps.throw(error)


def _send(steps: Generator[Any, Any, Any], value: Any) -> Callable[[], Any]:
    return lambda: steps.send(value)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(fd: int) -> Crash | None:
    data = os.pread(fd, _SIZE, 0)
    worker = _text(data, 0)
    token, _, partition = _text(data, _TOKEN_AT).partition(" ")
    return Crash(worker, token, int(partition or 0)) if worker else None


def _text(data: bytes, at: int) -> str:
    size = int.from_bytes(data[at : at + 2], "big")
    return data[at + 2 : at + 2 + size].decode(errors="replace")
