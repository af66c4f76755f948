"""Request in flight, with libcurl's callbacks; its handle serves the next request too.

libcurl calls in order of events: it requests a socket to an address, reports that the connection
is open (with TLS: that the handshake is complete) and that it writes the request next, and passes
the received bytes. Each callback can refuse.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable, Collection
from functools import partial
from ipaddress import ip_address
from typing import Any

import pycurl
from scrapy.exceptions import DownloadCancelledError

from crawling.client.answer import body_length
from crawling.client.clock import Clock
from crawling.client.curl_failures import failure_of
from crawling.failures import TransferFailed
from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.page.body_budget import LARGE
from crawling.page.page import Page
from crawlstream.boot.addresses import Address, AddressRefused

LONGEST_HEAD = 256 * 1024
"""Most bytes of all heads of a response and of its trailers, as in browsers."""
_BUFFER = 64 * 1024
_SMALL = 4096
"""Bytes of a part of a body that is kept as it came."""
_IDLE_S = 240
"""A connection that was idle for longer is not used again: most servers have closed it."""
_FOR_EVER_S = 24 * 3600
_GO_ON: int = pycurl.PREREQFUNC_OK
_ABORT: int = pycurl.PREREQFUNC_ABORT

_OLD_CIPHERS = "ALL:!aNULL:!eNULL:@SECLEVEL=0"
"""All that OpenSSL still knows and that has a certificate, with keys and hashes of any size."""
_GROUPS = "X25519:X25519MLKEM768:P-256:P-384:P-521"
"""Key exchanges of TLS. OpenSSL begins with the post-quantum one, which costs a sixth of a new
connection more; pages of the public web do without, unless the server insists."""
_KNOWS_GROUPS = "OpenSSL/" in pycurl.version and pycurl.version.partition("OpenSSL/")[2] >= "3.5"

_BLANK = (b"\r\n", b"\n")


class _Lent(socket.socket):
    """Socket that libcurl duplicates; this one closes when its last reference is gone."""

    def __del__(self) -> None:
        self.close()


class TransferCount:
    """Counts what anything was made of, of all transfers together."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Transfer:
    """A handle of libcurl, and the page that it works for."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        leases: Leases,
        progress: TransferCount,
        *,
        curl: Any,
        bind: tuple[str, int] | None,
    ) -> None:
        """``bind``: the address that connections leave from, if it matters."""
        self.curl = curl
        self._progress = progress
        self._loop = loop
        self._leases = leases
        self._bind = bind
        self._verifies = False
        _set_up(self)

    def begin(
        self, page: Page, addresses: Collection[Address], *, most: int, is_literal: bool
    ) -> asyncio.Future[None]:
        """Begin a transfer of a page to one of these addresses; the future is done when it ends.

        ``most``: bytes of the body; 0: any number.
        """
        self.page: Page | None = page
        self._addresses = addresses
        self._most = most
        self._is_literal = is_literal
        self.error: BaseException | None = None
        self.head: list[bytes] = []
        self.body: list[bytes | bytearray] = []
        self.has_head = self.is_paid = self.is_paused = self.was_kept = False
        self.is_strict = False
        """True if a kept connection must lead to one of the addresses, too."""
        self._head_size = self.size = 0
        self.head_at = 0.0
        self.clock: Clock | None = None
        self.done: asyncio.Future[None] = self._loop.create_future()
        return self.done

    @property
    def connect_s(self) -> float | None:
        """Return how long the connection took; None: it was kept, or there is none."""
        is_new = self.curl.getinfo(pycurl.NUM_CONNECTS)
        return (self.curl.getinfo(pycurl.CONNECT_TIME) or None) if is_new else None

    @property
    def weight(self) -> tuple[int, int]:
        """Bytes sent and received, but for those of TLS and of the proxy's own protocol."""
        info = self.curl.getinfo
        sent = info(pycurl.REQUEST_SIZE) + info(pycurl.SIZE_UPLOAD_T)
        return int(sent), int(info(pycurl.HEADER_SIZE) + info(pycurl.SIZE_DOWNLOAD_T))

    def verify(self, verifies: bool) -> None:  # noqa: FBT001  a switch
        """Set whether the server must prove its identity; then unverified ones go unused."""
        if verifies is not self._verifies:
            self.curl.setopt(pycurl.SSL_VERIFYPEER, int(verifies))
            self.curl.setopt(pycurl.SSL_VERIFYHOST, 2 if verifies else 0)
            self._verifies = verifies

    def greet_as_of_old(self) -> None:
        """Speak TLS as servers understood it long ago; libcurl keeps such connections apart."""
        self.curl.setopt(pycurl.SSLVERSION, pycurl.SSLVERSION_TLSv1_0)
        self.curl.setopt(pycurl.SSL_CIPHER_LIST, _OLD_CIPHERS)

    def end(self, error: BaseException | None = None) -> None:
        """All has come, or nothing more will."""
        self.page = None
        if self.clock:
            self.clock.stop()
        if self.done.done():
            return
        if failure := self.error or error:
            self.done.set_exception(failure)
        else:
            self.done.set_result(None)

    def failure(self, number: int, words: str) -> Exception:
        """Return the exception for one of libcurl's errors."""
        os_errno = self.curl.getinfo(pycurl.OS_ERRNO)
        return failure_of(number, words, os_errno=os_errno, must_prove=self._verifies)

    def blamed(self, error: Exception) -> Exception:
        """Return an error, with its blame if that is not the site."""
        return error

    # Called by libcurl: none of these may raise.

    def on_lookup(self) -> int:
        """Refuse to look up a name; a literal address needs no lookup."""
        return 0 if self._is_literal else 1

    def on_socket(self, _purpose: int, asked: Any) -> Any:
        """A connection is to be made, to an address that the guard has vetted or to none.

        Not a second one, when the kept one turns out dead.
        """
        if self.is_paid:
            self._refuse_another()
            return pycurl.SOCKET_BAD
        family, kind, protocol, where = asked
        if ip_address(where[0].partition("%")[0]) not in self._addresses:
            self.error = AddressRefused(f"{where[0]} was not vetted")
            return pycurl.SOCKET_BAD
        try:
            made = _Lent(family, kind, protocol)
            if self._bind:
                made.bind(self._bind)
        except OSError as error:
            self.error = TransferFailed("unreachable", str(error))
            return pycurl.SOCKET_BAD
        return made

    def on_request(self, where: str, *_: Any) -> int:
        """The connection to ``where`` stands, and the request is next: spend the grant on it.

        libcurl would write it a second time, unpaid, when a kept connection turns out dead.
        """
        page = self.page
        if page is None:
            return _ABORT
        if self.is_paid:
            self._refuse_another()
            return _ABORT
        if self.is_strict and ip_address(where) not in self._addresses:
            self.error = GrantExpired()
            return _ABORT
        try:
            self._leases.depart(page)
        except GrantExpired as error:
            self.error = error
            return _ABORT
        self.is_paid = True
        self._loop.call_soon(self._leases.departed, page)
        return _GO_ON

    def _refuse_another(self) -> None:
        """The request was written, and is not written again."""
        self.was_kept = True
        self.error = TransferFailed("connection_lost", "the kept connection was closed")

    def on_head(self, line: bytes) -> int | None:
        """A line of a head, or of what may come behind a body in chunks."""
        self._progress.count += 1
        self._head_size += len(line)
        if self._head_size > LONGEST_HEAD:
            self.error = TransferFailed("connection_lost", f"a head over {LONGEST_HEAD} bytes")
            return -1
        if self.has_head:
            return None
        if line not in _BLANK:
            self.head.append(line)
        elif self.head[:1] and self.head[0].partition(b" ")[2].lstrip()[:1] == b"1":
            self.head = []
        else:
            self.has_head, self.head_at = True, time.monotonic()
            if self.page is not None:
                self.page.head_at = self._leases.clock()
            if self._most and (length := body_length(self.head)) > self._most:
                return self._refuse_body(length)
        return None

    def on_body(self, part: bytes) -> int | None:
        """A part of the body, as it is on the wire but for chunks."""
        self._progress.count += 1
        self._keep(part)
        self.size += len(part)
        if self._most and self.size > self._most:
            return self._refuse_body(self.size)
        if self.size > LARGE and self.page is not None and self.page.is_open:
            self._weigh(self.page)
        return None

    def _refuse_body(self, size: int) -> int:
        """Refuse the rest of a body that has, or announces, ``size`` bytes."""
        self.body = []
        self.error = DownloadCancelledError(f"a body of {size} bytes, over {self._most}")
        return -1

    def _keep(self, part: bytes) -> None:
        """Keep a part; small ones are joined, or their objects would outweigh their bytes."""
        parts = self.body
        if not parts or len(part) >= _SMALL:
            parts.append(part)
        elif isinstance(last := parts[-1], bytearray) and len(last) < _BUFFER:
            last += part
        else:
            parts.append(bytearray(part))

    def _weigh(self, page: Page) -> None:
        budget = self._leases.body_budget
        budget.weigh(page, self.size)
        if not self.is_paused and self.clock and not budget.may_grow(page):
            self.is_paused = True
            self.clock.turn_over()
            self.curl.pause(pycurl.PAUSE_RECV)
            budget.wait(page, partial(self._go_on_soon, page))

    def _go_on_soon(self, page: Page) -> None:
        """Resume later: the caller that makes room may be inside one of libcurl's calls."""
        self._loop.call_soon(self._go_on, page)

    def _go_on(self, page: Page) -> None:
        if self.page is page and self.is_paused and self.clock:
            self.is_paused = False
            self.clock.turn_over()
            self.curl.pause(pycurl.PAUSE_CONT)


def _set_up(transfer: Transfer) -> None:
    """Set the options of all requests; rely on none of libcurl's defaults."""
    setopt: Callable[[int, Any], None] = transfer.curl.setopt
    setopt(pycurl.NOSIGNAL, 1)
    setopt(pycurl.USERAGENT, "")
    setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
    setopt(pycurl.HTTP09_ALLOWED, 0)
    setopt(pycurl.FOLLOWLOCATION, 0)
    # Neither the environment nor a file of the user has a say in where a request goes.
    setopt(pycurl.PROXY, "")
    setopt(pycurl.NETRC, pycurl.NETRC_IGNORED)
    setopt(pycurl.HSTS_CTRL, 0)
    setopt(pycurl.PATH_AS_IS, 1)
    setopt(pycurl.HTTP_CONTENT_DECODING, 0)
    setopt(pycurl.SSL_VERIFYPEER, 0)
    setopt(pycurl.SSL_VERIFYHOST, 0)
    if _KNOWS_GROUPS and isinstance(transfer.curl, pycurl.Curl):
        setopt(pycurl.SSL_EC_CURVES, _GROUPS)
    setopt(pycurl.BUFFERSIZE, _BUFFER)
    setopt(pycurl.MAXAGE_CONN, _IDLE_S)
    setopt(pycurl.CONNECTTIMEOUT, _FOR_EVER_S)  # The clock bounds it instead.
    setopt(pycurl.RESOLVER_START_FUNCTION, transfer.on_lookup)
    setopt(pycurl.OPENSOCKETFUNCTION, transfer.on_socket)
    setopt(pycurl.PREREQFUNCTION, transfer.on_request)
    setopt(pycurl.HEADERFUNCTION, transfer.on_head)
    setopt(pycurl.WRITEFUNCTION, transfer.on_body)
