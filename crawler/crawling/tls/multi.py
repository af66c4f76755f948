"""curl_cffi's libcurl moved by an event loop, with the methods of ``pycurl.CurlMulti``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pycurl
from curl_cffi import ffi, lib
from curl_cffi.const import CurlMOpt

from crawling.client.libcurl import Libcurl
from crawling.client.multi import cut
from crawling.tls.errors import CurlError
from crawling.tls.handle import Curl, callback
from crawling.tls.targets import TARGETS

MOST_KEPT: Final = 512
"""Connections of one profile, with those at work."""
_ONE_BY_ONE = 0
"""CURLPIPE_NOTHING: no two requests at a time on one connection of HTTP/2."""


def libcurl_of(profile: str) -> Libcurl:
    """Return the libcurl that greets like the browser of a profile."""
    return Libcurl(lambda: Curl(TARGETS[profile]), CurlMulti, MOST_KEPT)


class CurlMulti:
    """All transfers of one profile and route, and their connections."""

    def __init__(self) -> None:
        self._multi: Any = lib.curl_multi_init()
        self._self = ffi.new_handle(self)
        self._handles: dict[Any, Curl] = {}
        self._number = ffi.new("int *")
        self.called: dict[int, Callable[..., Any]] = {}
        """Python functions that libcurl calls, by option."""
        self.setopt(pycurl.M_PIPELINING, _ONE_BY_ONE)

    def setopt(self, option: int, value: Any) -> None:
        """Set an option."""
        if option in _CALLBACKS:
            function, data = _CALLBACKS[option]
            self.called[option] = value
            self._set(data, self._self)
            self._set(option, function)
        else:
            # curl_cffi's own call hands over the address of a number.
            self._set(option, ffi.cast("void *", value))

    def _set(self, option: int, value: Any) -> None:
        _check(lib.curl_multi_setopt(self._multi, option, value))

    def add_handle(self, curl: Curl) -> None:
        """Begin a transfer."""
        curl.begin()
        self._handles[curl.raw] = curl
        _check(lib.curl_multi_add_handle(self._multi, curl.raw))

    def remove_handle(self, curl: Curl) -> None:
        """Remove a handle; if its transfer is in progress, give the transfer up."""
        if self._handles.pop(curl.raw, None):
            if not curl.is_over:
                curl.spoil()
            _check(lib.curl_multi_remove_handle(self._multi, curl.raw))

    def socket_action(self, fd: int, events: int) -> None:
        """Notify libcurl that a socket is ready or a timer has expired."""
        _check(lib.curl_multi_socket_action(self._multi, fd, events, self._number))

    def info_read(self) -> tuple[int, list[Curl], list[tuple[Curl, int, str]]]:
        """Return 0 (no more messages), the complete handles, and the failed ones with errors."""
        complete: list[Curl] = []
        failed: list[tuple[Curl, int, str]] = []
        while message := lib.curl_multi_info_read(self._multi, self._number):
            curl = self._handles[message.easy_handle]
            curl.is_over = True
            if number := int(message.data.result):
                failed.append((curl, number, curl.words))
                self._cut(curl.socket)
            else:
                complete.append(curl)
        return 0, complete, failed

    def _cut(self, fd: int) -> None:
        """Cut the connection of a failed transfer, which HTTP/2 would otherwise keep."""
        if fd >= 0 and fd not in {
            other.socket for other in self._handles.values() if not other.is_over
        }:
            cut(fd)

    def close(self) -> None:
        """End all connections."""
        if self._multi is None:
            return
        for curl in list(self._handles.values()):
            self.remove_handle(curl)
        _check(lib.curl_multi_cleanup(self._multi))
        self._multi = self._self = None


def _check(number: int) -> None:
    if number:
        words: bytes = ffi.string(lib.curl_multi_strerror(number))
        raise CurlError(words.decode())


# Functions that libcurl calls.


@callback("int(void *, int, int, void *, void *)", error=-1)
def _on_socket(_curl: Any, fd: int, events: int, data: Any, *_: Any) -> int:
    ffi.from_handle(data).called[pycurl.M_SOCKETFUNCTION](events, fd, None, None)
    return 0


@callback("int(void *, long, void *)", error=-1)
def _on_timer(_multi: Any, after_ms: int, data: Any) -> int:
    ffi.from_handle(data).called[pycurl.M_TIMERFUNCTION](after_ms)
    return 0


_CALLBACKS: Final = {
    pycurl.M_SOCKETFUNCTION: (_on_socket, CurlMOpt.SOCKETDATA),
    pycurl.M_TIMERFUNCTION: (_on_timer, CurlMOpt.TIMERDATA),
}
"""By option, the function that libcurl calls, and the option for its data pointer."""
