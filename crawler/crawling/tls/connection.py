"""A connection to a site that greets it like a browser, and those that are kept.

Each has a token of the gateway's to itself, and libcurl shares no connection between two of them:
so whatever is written by a token belongs to the one request that is under way there.
"""

from __future__ import annotations

import asyncio
import select
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Any, Final, cast

from curl_cffi import AsyncCurl, Curl, CurlInfo, ffi, lib
from curl_cffi.const import CurlMOpt, CurlOpt
from scrapy import Request

from crawling.client.ask import base_and_target, header_lines
from crawling.egress.route import Route
from crawling.gateway.gateway import Gateway
from crawling.net.trust import trusted_certificates
from crawling.tls.exchange import Exchange

MOST_KEPT: Final = 64
"""Connections that nobody uses; beyond them the one that was not used for longest is closed."""
_IDLE_S: Final = 30.0
_TUNNELS: Final = 4
"""One, and those that are about to end."""
_CONNECTIONS: Final = 512


class Multi(AsyncCurl):
    """libcurl's engine, which notes the socket of what is done: later libcurl does not tell."""

    def __init__(self) -> None:
        super().__init__()
        self.sockets: dict[Curl, int] = {}
        # Its own setopt passes the address of a number. Without this libcurl closes the oldest
        # connection above four for each request under way, that of a page which begins included.
        if lib.curl_multi_setopt(
            self._curlm, CurlMOpt.MAXCONNECTS, ffi.cast("void *", _CONNECTIONS)
        ):
            raise RuntimeError("curl_cffi keeps no connections")

    def set_result(self, curl: Curl) -> None:
        """All has come."""
        self.sockets[curl] = cast(int, curl.getinfo(CurlInfo.ACTIVESOCKET))
        super().set_result(curl)


class Connection:
    """libcurl's handle for one site, profile and route."""

    def __init__(
        self, multi: Multi, gateway: Gateway, route: Route | None, *, target: str, proves: bool
    ) -> None:
        """``target``: the browser; ``proves``: whether certificates must hold."""
        self._multi = multi
        self.is_used = False
        """Whether a request has gone over it before."""
        self.used_at = 0.0
        self._socket = -1
        self.way_out = gateway.admit(route, most_tunnels=_TUNNELS, before_send=_nobody)
        self._curl = Curl()
        if self._curl.impersonate(target, default_headers=False):
            raise RuntimeError(f"curl_cffi does not know {target}")
        _set_up(self._curl, proves=proves)
        setopt = self._curl.setopt
        setopt(CurlOpt.PROXY, f"http://{gateway.address}")
        setopt(CurlOpt.PROXYUSERNAME, self.way_out.user)
        setopt(CurlOpt.PROXYPASSWORD, self.way_out.password)

    def start(self, request: Request, exchange: Exchange) -> asyncio.Future[None]:
        """Send a request; the future is done, or raises CurlError, when all has come."""
        self.way_out.before_send = exchange.let_go
        self.way_out.ask_again()
        setopt = self._curl.setopt
        base, target = base_and_target(request.url)
        setopt(CurlOpt.URL, base)
        setopt(CurlOpt.REQUEST_TARGET, target)
        setopt(CurlOpt.HTTPHEADER, header_lines(request))
        setopt(CurlOpt.HEADERFUNCTION, exchange.on_head)
        setopt(CurlOpt.WRITEFUNCTION, exchange.on_body)
        if request.body:
            setopt(CurlOpt.POSTFIELDSIZE, len(request.body))
            setopt(CurlOpt.POSTFIELDS, request.body)
        if request.method == "HEAD":
            setopt(CurlOpt.NOBODY, 1)
        elif request.method != "GET" or request.body:
            setopt(CurlOpt.CUSTOMREQUEST, request.method)
        done: asyncio.Future[None] = self._multi.add_handle(self._curl)
        return done

    def stop(self) -> None:
        """The request is over, or shall be."""
        self._socket = self._multi.sockets.pop(self._curl, -1)
        with suppress(KeyError):
            self._multi.remove_handle(self._curl)
        self.way_out.before_send = _nobody
        self.way_out.go_on()
        self._curl.clean_handles_and_buffers()
        self.is_used = True

    @property
    def is_fit(self) -> bool:
        """Whether a request may go over it once more.

        What libcurl has not read says that it ends: GOAWAY, an alert. It would be read, and
        answered, with the next request, and by that answer the grant of a page would be spent.
        """
        if self.way_out.tunnels != 1 or self._socket < 0:
            return False
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        return not poll.poll(0)

    def close(self) -> None:
        """End it."""
        self.way_out.close()
        self._curl.close()


def _nobody(host: str, port: int) -> None:
    """No page is under way: what is still written belongs to the one before."""


class Connections:
    """Those that are kept for the next request to the same site."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.multi = Multi()
        self._idle: OrderedDict[Connection, Hashable] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def take(self, key: Hashable, make: Callable[[Multi], Connection]) -> Connection:
        """One for this key, kept or new."""
        for connection in [each for each, its in reversed(self._idle.items()) if its == key]:
            del self._idle[connection]
            if connection.is_fit:
                return connection
            connection.close()
        return make(self.multi)

    def keep(self, key: Hashable, connection: Connection) -> None:
        """Take one back."""
        connection.used_at = self._loop.time()
        self._idle[connection] = key
        if len(self._idle) > MOST_KEPT:
            self._idle.popitem(last=False)[0].close()
        if self._timer is None:
            self._timer = self._loop.call_later(_IDLE_S, self._sweep)

    def _sweep(self) -> None:
        since = self._loop.time() - _IDLE_S
        while self._idle and next(iter(self._idle)).used_at <= since:
            self._idle.popitem(last=False)[0].close()
        self._timer = self._loop.call_later(_IDLE_S, self._sweep) if self._idle else None

    def close(self) -> None:
        """End all; nothing may be under way."""
        if self._timer:
            self._timer.cancel()
        while self._idle:
            self._idle.popitem()[0].close()
        self._closing = self._loop.create_task(self.multi.close())  # type: ignore[no-untyped-call]


def _set_up(curl: Curl, *, proves: bool) -> None:
    """What holds for all requests; what libcurl does by itself otherwise is left to no default."""
    options: dict[CurlOpt, Any] = {
        CurlOpt.NOSIGNAL: 1,
        CurlOpt.PROTOCOLS_STR: "https",
        CurlOpt.FOLLOWLOCATION: 0,
        CurlOpt.NOPROXY: "",
        CurlOpt.HTTPPROXYTUNNEL: 1,
        CurlOpt.SUPPRESS_CONNECT_HEADERS: 1,
        CurlOpt.HSTS_CTRL: 0,
        CurlOpt.HTTP_CONTENT_DECODING: 0,
        CurlOpt.PATH_AS_IS: 1,
        CurlOpt.CONNECTTIMEOUT: 24 * 3600,
        CurlOpt.SSL_VERIFYPEER: int(proves),
        CurlOpt.SSL_VERIFYHOST: 2 if proves else 0,
    }
    for option, value in options.items():
        curl.setopt(option, value)
    names = {"cafile": CurlOpt.CAINFO, "capath": CurlOpt.CAPATH}
    for name, path in trusted_certificates().items():
        curl.setopt(names[name], path)
