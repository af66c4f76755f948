"""Why a page could not be fetched: from an exception to a reason code of ``page_failed``.

======================== ===== =================================================================
code                     retry meaning
======================== ===== =================================================================
``dns``                  yes   the host has no address
``refused``              yes   nobody listens there
``unreachable``          yes   no route, or another error of the network
``timeout``              yes   no complete response within DOWNLOAD_TIMEOUT
``connection_lost``      yes   the connection broke before the response was complete
``tls``                  yes   no encrypted connection came about
``proxy``                yes   none of several proxies has come through to the site
``no_proxy``             no    no proxy of its pool would do, for MAX_WAIT
``render_failed``        yes   the page in a browser, or the browser, has died
``certificate``          no    the server must prove who it is, and its certificate does not hold
``bad_response``         yes   what came back is not HTTP
``bad_encoding``         no    the body cannot be decompressed
``too_large``            no    the body, decompressed, is larger than DOWNLOAD_MAXSIZE
``address_refused``      no    the guard does not let the crawler go there
``invalid_request``      no    the request cannot be sent as it is
``robots``               no    robots.txt asks to leave the page alone
``robots_unreachable``   no    robots.txt could not be had for very long
``redirect_loop``        no    a redirect leads back into its own chain
``too_many_redirects``   no    a chain of redirects without an end
``spider_error``         no    the spider's own code raised
``item_error``           no    a pipeline raised, or the item cannot be published
``callback_timeout``     yes   callback, pipeline or middleware of the user did not end in 9 minutes
``ignored``              no    a downloader middleware of the user left it out
``killed_worker``        no    it was on the CPU when its worker died, three times
``hold_timeout``         no    no worker that held it brought it to its end, twenty times
``download_error``       yes   anything else
======================== ===== =================================================================
"""

from __future__ import annotations

from collections.abc import Iterator

from OpenSSL import SSL
from scrapy import Request
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadTimeoutError,
    IgnoreRequest,
    NotSupported,
    ResponseDataLossError,
    UnsupportedURLSchemeError,
)
from twisted.internet import error as net
from twisted.web._newclient import ParseError
from twisted.web.client import ResponseFailed

from crawling.egress.blame import Blame
from crawling.net.trust import is_untrusted
from crawlstream.boot.addresses import AddressRefused

RETRY_CODES = frozenset({408, 429, 500, 502, 503, 504, 522, 524})
"""Statuses that are tried again before they are taken for the page's answer."""

CALLBACK_TIMEOUT = "callback_timeout"

FINAL = frozenset(
    {
        *("address_refused", "bad_encoding", "certificate", "ignored", "invalid_request"),
        *("no_proxy", "too_large"),
    }
)
"""Reasons that another attempt would meet again."""


class RequestReplaced(IgnoreRequest):
    """A middleware wants another request than the one that the page's grant was for."""

    def __init__(self, request: Request) -> None:
        super().__init__(
            f"a middleware returned another request instead: {request.method} {request.url}"
        )
        self.request = request


class TooLarge(Exception):
    """The body is larger, decompressed, than this crawler accepts."""


class TransferFailed(Exception):
    """A download of the fetch lane came to nothing; it knows its reason code."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


class PathFailed(TransferFailed):
    """The same through a proxy: who is to blame may be unknown."""

    def __init__(self, reason: str, words: str, *, is_silent: bool) -> None:
        """``is_silent``: several proxies that work have heard nothing of the site."""
        super().__init__(reason, words)
        self.is_silent = is_silent


class ProxyTrouble(TransferFailed):
    """The request did not come through; says who is to blame."""

    def __init__(self, blame: Blame, words: str, reason: str = "proxy") -> None:
        super().__init__(reason, words)
        self.blame = blame


class PageTimeout(Exception):
    """Code of the user has kept the page for longer than a worker may."""


class BadEncoding(Exception):
    """The body cannot be decompressed."""


class BadStatus(Exception):
    """The status of the response has more than three digits."""


_REASONS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], str], ...] = (
    (AddressRefused, "address_refused"),
    (TooLarge, "too_large"),
    (PageTimeout, CALLBACK_TIMEOUT),
    (BadEncoding, "bad_encoding"),
    ((CannotResolveHostError, net.DNSLookupError), "dns"),
    ((DownloadConnectionRefusedError, net.ConnectionRefusedError), "refused"),
    ((DownloadTimeoutError, net.TCPTimedOutError, net.TimeoutError, TimeoutError), "timeout"),
    (SSL.Error, "tls"),
    ((ParseError, BadStatus), "bad_response"),
    (DownloadCancelledError, "too_large"),
    ((ResponseDataLossError, net.ConnectionLost, net.ConnectionDone), "connection_lost"),
    (net.ConnectError, "unreachable"),
    # What Twisted thinks of a response is a ValueError as well.
    (ResponseFailed, "bad_response"),
    ((UnsupportedURLSchemeError, NotSupported, ValueError, TypeError), "invalid_request"),
)
"""Checked in this order, on the error itself and on everything it was raised from."""


def reason_of(error: BaseException) -> str:
    """The code of a download that raised."""
    causes = list(_causes(error))
    if any(map(is_untrusted, causes)):
        return "certificate"
    for cause in causes:
        if isinstance(cause, TransferFailed):
            return cause.reason
    for kinds, reason in _REASONS:
        if any(isinstance(cause, kinds) for cause in causes):
            return reason
    return "download_error"


def is_retryable(reason: str) -> bool:
    """Return whether another attempt may end otherwise."""
    return reason not in FINAL


def _causes(error: BaseException | None, depth: int = 8) -> Iterator[BaseException]:
    """An error, what it was raised from, and what Twisted wrapped in it."""
    if error is None or depth == 0:
        return
    yield error
    for wrapped in getattr(error, "reasons", None) or ():
        yield from _causes(getattr(wrapped, "value", None), depth - 1)
    yield from _causes(error.__cause__, depth - 1)
