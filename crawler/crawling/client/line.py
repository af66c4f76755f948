"""The connections of one kind, and the handles of libcurl for them.

Direct connections are one kind, those of each proxy another: what is kept open for the next request
is never shared between two proxies, nor between two sessions with one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from crawling.client.libcurl import Libcurl
from crawling.client.multi import Multi
from crawling.client.transfer import Transfer, TransferCount
from crawling.egress.route import Route

_SPARE = 64
"""Handles that are kept for the next requests."""
_KEPT_BY_PROXY = 8
"""Connections; proxies have few places."""
_IDLE_S = 30.0
"""Seconds after which an unused connection through a proxy is closed."""


class Line:
    """Lends handles, and moves what they transfer."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[TransferCount], Transfer],
        *,
        libcurl: Libcurl,
        most_kept: int,
    ) -> None:
        """``most_kept``: connections, with those at work."""
        self.multi = Multi(loop, libcurl.multi(), most_kept)
        self._make = make
        self._spare: list[Transfer] = []
        self.lent = 0
        """Number of handles in use."""

    def take(self) -> Transfer:
        """A handle for one request."""
        self.lent += 1
        return self._spare.pop() if self._spare else self._make(self.multi.progress)

    def keep(self, transfer: Transfer, *, is_plain: bool) -> None:
        """Take a handle back; ``is_plain``: it may be used for another request."""
        self.lent -= 1
        transfer.head, transfer.body = [], []
        # A handle that libcurl would have sent again by remembers that.
        is_clean = is_plain and not transfer.is_paused and not transfer.was_kept
        if is_clean and len(self._spare) < _SPARE:
            self._spare.append(transfer)
        else:
            # It holds what holds it: a circle that the garbage collector would be late for.
            transfer.curl.close()

    def close(self) -> None:
        """Close all connections; no request may be in flight."""
        for transfer in self._spare:
            transfer.curl.close()
        self._spare.clear()
        self.multi.close()


class ProxyLines:
    """A line for each proxy that is in use."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[Route, TransferCount], Transfer],
        libcurl: Libcurl,
    ) -> None:
        self._loop = loop
        self._libcurl = libcurl
        self._make = make
        self._lines: OrderedDict[tuple[object, ...], tuple[float, Line]] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None

    def line(self, route: Route) -> Line:
        """The line of a route: another one as soon as its password is another."""
        key = route.proxy, route.credentials, route.pool.plain, route.pool.dns
        _, line = self._lines.pop(key, (0.0, None))
        if line is None:
            make = partial(self._make, route)
            line = Line(self._loop, make, libcurl=self._libcurl, most_kept=_KEPT_BY_PROXY)
        self._lines[key] = self._loop.time(), line
        if self._timer is None:
            self._timer = self._loop.call_later(_IDLE_S, self._sweep)
        return line

    def _sweep(self) -> None:
        since = self._loop.time() - _IDLE_S
        for key, (used_at, line) in list(self._lines.items()):
            if used_at <= since and not line.lent:
                del self._lines[key]
                line.close()
        self._timer = self._loop.call_later(_IDLE_S, self._sweep) if self._lines else None

    def close(self) -> None:
        """Close all connections; no request may be in flight."""
        if self._timer:
            self._timer.cancel()
        for _, line in self._lines.values():
            line.close()
        self._lines.clear()
