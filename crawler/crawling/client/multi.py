"""Run libcurl on the event loop: it names its sockets and is notified when they are ready."""

from __future__ import annotations

import asyncio
import fcntl
import os
import socket
import struct
import termios
from contextlib import suppress
from typing import Any

import pycurl

from crawling.client.transfer import LONGEST_HEAD, Transfer, TransferCount

_LENGTH = struct.Struct("i")


class Multi:
    """All transfers of a process, and the connections that are kept for the next ones."""

    def __init__(self, loop: asyncio.AbstractEventLoop, multi: Any, most_kept: int) -> None:
        """``most_kept``: connections, with those at work."""
        self._loop = loop
        self._multi = multi
        self._multi.setopt(pycurl.M_SOCKETFUNCTION, self._watch)
        self._multi.setopt(pycurl.M_TIMERFUNCTION, self._set_timer)
        self._multi.setopt(pycurl.M_MAXCONNECTS, most_kept)
        self._timer: asyncio.Handle | None = None
        self._watched: dict[int, int] = {}
        self._running: dict[Any, Transfer] = {}
        self._unheard: dict[int, int] = {}
        """By socket, bytes that came since anything was made of them."""
        self.progress = TransferCount()

    async def run(self, transfer: Transfer) -> None:
        """Return when the response is complete; raises what has come in between."""
        curl = transfer.curl
        self._running[curl] = transfer
        try:
            self._multi.add_handle(curl)
            await transfer.done
        finally:
            self._remove(transfer)

    def _remove(self, transfer: Transfer) -> None:
        if self._running.pop(transfer.curl, None):
            self._multi.remove_handle(transfer.curl)
            transfer.end()

    def close(self) -> None:
        """Close all connections; no request may be in flight."""
        if self._timer is not None:
            self._timer.cancel()
        self._multi.close()
        for fd, events in list(self._watched.items()):
            self._listen(fd, events, 0)

    # Called by libcurl.

    def _set_timer(self, after_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if after_ms == 0:
            self._timer = self._loop.call_soon(self._act, pycurl.SOCKET_TIMEOUT, 0)
        elif after_ms > 0:
            self._timer = self._loop.call_later(
                after_ms / 1000, self._act, pycurl.SOCKET_TIMEOUT, 0
            )

    def _watch(self, events: int, fd: int, _multi: Any, _data: Any) -> None:
        before = self._watched.get(fd, 0)
        if events == pycurl.POLL_REMOVE:
            self._watched.pop(fd, None)
            self._unheard.pop(fd, None)
            self._listen(fd, before, 0)
        else:
            self._watched[fd] = events
            self._listen(fd, before, events)

    def _listen(self, fd: int, before: int, now: int) -> None:
        loop, ends, begins = self._loop, before & ~now, now & ~before
        if ends & pycurl.POLL_IN:
            loop.remove_reader(fd)
        if ends & pycurl.POLL_OUT:
            loop.remove_writer(fd)
        if begins & pycurl.POLL_IN:
            loop.add_reader(fd, self._read, fd)
        if begins & pycurl.POLL_OUT:
            loop.add_writer(fd, self._act, fd, pycurl.CSELECT_OUT)

    # Called by the loop.

    def _read(self, fd: int) -> None:
        """Read from a socket; bound the bytes that libcurl reads without a callback.

        A chunk's extension, for example, may be endless, and libcurl skips it.
        """
        unheard = self._unheard.get(fd)
        if unheard is not None:
            unheard += _waiting(fd)
            self._unheard[fd] = unheard
            if unheard > LONGEST_HEAD:
                cut(fd)
        before = self.progress.count
        self._act(fd, pycurl.CSELECT_IN)
        if self.progress.count != before:
            self._unheard.pop(fd, None)
        elif fd in self._watched:
            self._unheard.setdefault(fd, 0)

    def _act(self, fd: int, events: int) -> None:
        self._multi.socket_action(fd, events)
        more = True
        while more:
            more, complete, failed = self._multi.info_read()
            for curl in complete:
                self._end(curl, 0, "")
            for curl, number, words in failed:
                self._end(curl, number, words)

    def _end(self, curl: Any, number: int, words: str) -> None:
        self.progress.count += 1
        self._multi.remove_handle(curl)
        transfer = self._running.pop(curl)
        transfer.end(transfer.failure(number, words) if number else None)


def _waiting(fd: int) -> int:
    """Bytes that can be read from a socket; may be less than what is."""
    count: int
    (count,) = _LENGTH.unpack(fcntl.ioctl(fd, termios.FIONREAD, bytes(_LENGTH.size)))
    return count


def cut(fd: int) -> None:
    """Break a connection off; libcurl finds it closed."""
    with socket.socket(fileno=os.dup(fd)) as same, suppress(OSError):
        same.shutdown(socket.SHUT_RDWR)
