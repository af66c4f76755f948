"""One request and its response, as libcurl tells of them."""

from __future__ import annotations

import time
from collections.abc import Callable

from scrapy.exceptions import DownloadCancelledError

from crawling.client.transfer import LONGEST_HEAD
from crawling.failures import PathFailed, TransferFailed
from crawling.lease.holds import GrantExpired, Holds
from crawling.page.body_budget import LARGE
from crawling.page.page import Page

_STOP = 0xFFFFFFFF
"""CURL_WRITEFUNC_ERROR: libcurl ends the transfer."""
_BLANK = (b"\r\n", b"\n")


class Exchange:
    """What came so far, and why it shall not go on. What libcurl calls may not raise."""

    def __init__(self, page: Page, holds: Holds, *, most: int, is_proxied: bool) -> None:
        """``most``: bytes of the body; 0: any number."""
        self.page = page
        self._holds = holds
        self._most = most
        self._is_proxied = is_proxied
        self.error: Exception | None = None
        self.head: list[bytes] = []
        self.body: list[bytes] = []
        self.has_head = self.is_sent = False
        self.head_at = 0.0
        self._head_size = self.size = 0
        self.pause: Callable[[], None] | None = None
        """Called when the body is to wait for others."""

    def let_go(self, _host: str, _port: int) -> None:
        """The first bytes are about to be written to the site: spend the grant; else raise.

        libcurl would send a request a second time where a kept connection turns out dead, or where
        a site says by HTTP/2 that it has not looked at it.
        """
        if self.is_sent:
            words = "it would have to be asked for once more"
            self.error = (
                PathFailed("connection_lost", words, is_silent=False)
                if self._is_proxied
                else TransferFailed("connection_lost", words)
            )
            raise GrantExpired(words)
        try:
            self._holds.depart(self.page)
        except GrantExpired as error:
            self.error = error
            raise
        self.is_sent = True

    def on_head(self, line: bytes) -> int:
        """A line of a head, or of what may come behind a body."""
        self._holds.departed(self.page)
        self._head_size += len(line)
        if self._head_size > LONGEST_HEAD:
            self.error = TransferFailed("connection_lost", f"a head over {LONGEST_HEAD} bytes")
            return _STOP
        if self.has_head:
            return len(line)
        if line not in _BLANK:
            self.head.append(line)
        elif self.head[:1] and self.head[0].partition(b" ")[2].lstrip()[:1] == b"1":
            self.head = []
        else:
            self.has_head, self.head_at = True, time.monotonic()
        return len(line)

    def on_body(self, part: bytes) -> int:
        """A part of the body, as it is on the wire but for frames and chunks."""
        self.body.append(part)
        self.size += len(part)
        if self._most and self.size > self._most:
            self.body = []
            self.error = DownloadCancelledError(f"a body over {self._most} bytes")
            return _STOP
        if self.size > LARGE and self.page.is_open:
            self._holds.body_budget.weigh(self.page, self.size)
            if self.pause and not self._holds.body_budget.may_grow(self.page):
                self.pause()
        return len(part)
