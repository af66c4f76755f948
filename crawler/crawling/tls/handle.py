"""A handle of curl_cffi's libcurl with the methods of ``pycurl.Curl`` that are used here.

Its own class knows neither the callback for the address of a connection nor the one before a
request is written; its libcurl does. What is called finds its handle by what it is given: a
pointer to the handle, for each callback.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Sequence
from ipaddress import ip_address
from typing import Any, Final

import pycurl
from curl_cffi import ffi, lib
from curl_cffi.const import CurlOpt

from crawling.tls.errors import CurlError

_STEP = 10_000
_LONG, _FUNCTION, _OFFSET = 0, 2, 3
"""Kinds of options, by their ten thousands; the others are strings and lists."""
_LISTS: Final = frozenset({pycurl.HTTPHEADER, pycurl.RESOLVE, pycurl.CONNECT_TO})
_KIND = 0xF00000
_TEXT = 0x100000
_FIGURES: Final = {
    _TEXT: "char **",
    0x200000: "long *",
    0x300000: "double *",
    0x600000: "int64_t *",
}
"""By the kind of a figure, what it is written to."""
_MESSAGE_SIZE: Final = 256
_STOP: Final = 0xFFFFFFFF
"""CURL_WRITEFUNC_ERROR: libcurl ends the transfer."""
_NO_SOCKET: Final = -1
_SOCKADDR_AT: Final = 16
"""Where the address begins in ``struct curl_sockaddr``: behind four numbers."""


class Curl:
    """Sends one request at a time, and greets as a browser does."""

    def __init__(self, target: str) -> None:
        """``target`` is the browser, as curl_cffi calls it."""
        self.raw: Any = lib.curl_easy_init()
        """The handle of libcurl; None once it is closed."""
        self.called: dict[int, Callable[..., Any]] = {}
        """Python functions that libcurl calls, by option."""
        self._self = ffi.new_handle(self)
        self._words = ffi.new("char []", _MESSAGE_SIZE)
        self._lists: dict[int, Any] = {}
        self._body: Any = None
        self.is_over = self._is_spoilt = False
        with_headers = 0
        if lib.curl_easy_impersonate(self.raw, target.encode(), with_headers):
            raise CurlError(f"curl_cffi does not know {target}")
        self._set(CurlOpt.ERRORBUFFER, self._words)
        self.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_2TLS)

    def setopt(self, option: int, value: Any) -> None:
        """Set an option."""
        kind = option // _STEP
        if kind == _FUNCTION:
            function, data = _CALLBACKS[option]
            self.called[option] = value
            self._set(data, self._self)
            self._set(option, function)
        elif kind == _LONG:
            self._set(option, ffi.new("long *", value))
        elif kind == _OFFSET:
            self._set(option, ffi.new("int64_t *", value))
        elif option in _LISTS:
            self._set_list(option, value)
        elif option == pycurl.POSTFIELDS:
            self._set_body(value)
        else:
            self._set(option, _bytes(value))

    def _set(self, option: int, value: Any) -> None:
        if number := lib._curl_easy_setopt(self.raw, option, value):  # noqa: SLF001  its only way
            raise CurlError(f"option {option}: {number}")

    def _set_list(self, option: int, values: Sequence[str | bytes]) -> None:
        made = ffi.NULL
        for value in values:
            made = lib.curl_slist_append(made, _bytes(value))
        self._set(option, made)
        lib.curl_slist_free_all(self._lists.get(option, ffi.NULL))
        self._lists[option] = made

    def _set_body(self, body: bytes) -> None:
        """Set the body of a request and keep a reference, as libcurl does not copy it."""
        self._body = ffi.from_buffer(body)
        self._set(pycurl.POSTFIELDSIZE_LARGE, ffi.new("int64_t *", len(body)))
        self._set(pycurl.POSTFIELDS, self._body)

    def getinfo(self, figure: int) -> Any:
        """Return a figure of the latest transfer."""
        kind = figure & _KIND
        value = ffi.new(_FIGURES[kind])
        if number := lib.curl_easy_getinfo(self.raw, figure, value):
            raise CurlError(f"figure {figure}: {number}")
        if kind != _TEXT:
            return value[0]
        return _text(value[0]) if value[0] else ""

    def pause(self, what: int) -> None:
        """Pause or resume reading."""
        if number := lib.curl_easy_pause(self.raw, what):
            raise CurlError(f"pause: {number}")

    def begin(self) -> None:
        """Begin a transfer, whose connection may be used again after it."""
        self.is_over = False
        if self._is_spoilt:
            self._is_spoilt = False
            self.setopt(pycurl.FORBID_REUSE, 0)

    def spoil(self) -> None:
        """Give up this transfer and forbid using its connection again, as HTTP/2 would."""
        self._is_spoilt = True
        self.setopt(pycurl.FORBID_REUSE, 1)

    @property
    def socket(self) -> int:
        """Return the socket of the latest transfer if it is still open, else -1."""
        number = ffi.new("uintptr_t *")
        failed = lib._curl_easy_getinfo_socket(self.raw, pycurl.ACTIVESOCKET, number)  # noqa: SLF001
        found = int(ffi.cast("int", number[0]))
        return _NO_SOCKET if failed else found

    @property
    def words(self) -> str:
        """Return libcurl's message for its latest error."""
        return _text(self._words)

    def close(self) -> None:
        """Free the handle; no engine may still contain it."""
        if self.raw is None:
            return
        lib.curl_easy_cleanup(self.raw)
        self.raw = self._self = self._body = None
        for each in self._lists.values():
            lib.curl_slist_free_all(each)
        self._lists.clear()
        self.called.clear()


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _text(pointer: Any) -> str:
    words: bytes = ffi.string(pointer)
    return words.decode(errors="backslashreplace")


def _call(data: Any, option: int, *given: Any) -> Any:
    return ffi.from_handle(data).called[option](*given)


def callback(shape: str, error: int) -> Callable[[Callable[..., int]], Any]:
    """Make a function that libcurl can call; it returns ``error`` if it raises."""
    decorate: Callable[[Callable[..., int]], Any] = ffi.callback(shape, error=error)
    return decorate


# Functions that libcurl calls.


@callback("size_t(char *, size_t, size_t, void *)", error=_STOP)
def _on_head(pointer: Any, _one: int, size: int, data: Any) -> int:
    told = _call(data, pycurl.HEADERFUNCTION, ffi.buffer(pointer, size)[:])
    return size if told is None else _STOP


@callback("size_t(char *, size_t, size_t, void *)", error=_STOP)
def _on_body(pointer: Any, _one: int, size: int, data: Any) -> int:
    told = _call(data, pycurl.WRITEFUNCTION, ffi.buffer(pointer, size)[:])
    return size if told is None else _STOP


@callback("int(void *, void *, void *)", error=1)
def _on_lookup(_state: Any, _reserved: Any, data: Any) -> int:
    refused: int = _call(data, pycurl.RESOLVER_START_FUNCTION)
    return refused


@callback("int(void *, char *, char *, int, int)", error=pycurl.PREREQFUNC_ABORT)
def _on_request(data: Any, where: Any, *_: Any) -> int:
    answer: int = _call(data, pycurl.PREREQFUNCTION, _text(where))
    return answer


@callback("int(void *, int, void *)", error=_NO_SOCKET)
def _on_socket(data: Any, purpose: int, where: Any) -> int:
    numbers = ffi.cast("int *", where)
    family, kind, protocol, size = (numbers[at] for at in range(4))
    sockaddr = bytes(ffi.buffer(where, _SOCKADDR_AT + size))[_SOCKADDR_AT:]
    (port,) = struct.unpack_from("!H", sockaddr, 2)
    address = ip_address(sockaddr[4:8] if family == socket.AF_INET else sockaddr[8:24])
    asked = family, kind, protocol, (str(address), port)
    made = _call(data, pycurl.OPENSOCKETFUNCTION, purpose, asked)
    return _NO_SOCKET if made == pycurl.SOCKET_BAD else int(made.detach())


_CALLBACKS: Final = {
    pycurl.HEADERFUNCTION: (_on_head, CurlOpt.HEADERDATA),
    pycurl.WRITEFUNCTION: (_on_body, CurlOpt.WRITEDATA),
    pycurl.RESOLVER_START_FUNCTION: (_on_lookup, CurlOpt.RESOLVER_START_DATA),
    pycurl.OPENSOCKETFUNCTION: (_on_socket, CurlOpt.OPENSOCKETDATA),
    pycurl.PREREQFUNCTION: (_on_request, CurlOpt.PREREQDATA),
}
"""By option, the function that libcurl calls, and the option for its data pointer."""
