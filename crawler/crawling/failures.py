"""Reason codes of ``page_failed``, and their exceptions.

======================== ===== =================================================================
code                     retry meaning
======================== ===== =================================================================
``dns``                  yes   the host has no address
``refused``              yes   the host refused the connection
``unreachable``          yes   no route, or another error of the network
``timeout``              yes   no complete response within DOWNLOAD_TIMEOUT
``connection_lost``      yes   the connection broke before the response was complete
``tls``                  yes   no TLS connection could be made
``proxy``                yes   several proxies could not reach the site
``no_proxy``             no    no proxy of the pool could be used for MAX_WAIT
``render_failed``        yes   the page in a browser, or the browser, has died
``certificate``          no    the server must prove its identity, but its certificate is invalid
``bad_response``         yes   the response is not HTTP
``bad_encoding``         no    the body cannot be decompressed
``too_large``            no    the body, decompressed, is larger than DOWNLOAD_MAXSIZE
``address_refused``      no    the guard does not allow the address
``invalid_request``      no    the request cannot be sent as it is
``robots``               no    robots.txt disallows the page
``robots_unreachable``   no    robots.txt could not be fetched for a very long time
``redirect_loop``        no    a redirect leads back into its own chain
``too_many_redirects``   no    the chain of redirects is too long
``spider_error``         no    the spider's own code raised
``item_error``           no    a pipeline raised, or the item cannot be published
``callback_timeout``     yes   callback, pipeline or middleware of the user did not end in 9 minutes
``ignored``              no    a downloader middleware of the user dropped the page
``killed_worker``        no    its worker died while processing the page, three times
``hold_timeout``         no    its lease was revoked twenty times
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

CALLBACK_TIMEOUT = "callback_timeout"

FINAL = frozenset(
    {
        *("address_refused", "bad_encoding", "certificate", "ignored", "invalid_request"),
        *("no_proxy", "too_large"),
    }
)
"""Reasons for which another attempt would fail in the same way."""


class RequestReplaced(IgnoreRequest):
    """A middleware returned a request other than the one that the grant is for."""

    def __init__(self, request: Request) -> None:
        super().__init__(
            f"a middleware returned another request instead: {request.method} {request.url}"
        )
        self.request = request


class TooLarge(Exception):
    """The body is larger, decompressed, than this crawler accepts."""


class TransferFailed(Exception):
    """A download of the fetch lane failed; ``reason`` is its reason code."""

    def __init__(self, reason: str, words: str) -> None:
        super().__init__(words)
        self.reason = reason


class PathFailed(TransferFailed):
    """A download through a proxy failed; proxy or site may be the cause."""

    def __init__(self, reason: str, words: str, *, is_silent: bool) -> None:
        """``is_silent``: several working proxies got no answer from the site."""
        super().__init__(reason, words)
        self.is_silent = is_silent


class ProxyTrouble(TransferFailed):
    """The request did not reach the site; ``blame`` is the cause."""

    def __init__(self, blame: Blame, words: str, reason: str = "proxy") -> None:
        super().__init__(reason, words)
        self.blame = blame


class PageTimeout(Exception):
    """Code of the user has processed the page for longer than a worker may."""


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
    # Before ValueError: Twisted's errors about a response are ValueErrors as well.
    (ResponseFailed, "bad_response"),
    ((UnsupportedURLSchemeError, NotSupported, ValueError, TypeError), "invalid_request"),
)
"""Reasons by class, checked in this order, on the error and on all its causes."""


def reason_of(error: BaseException) -> str:
    """Return the reason code of a download that raised."""
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
    """Return whether another attempt may succeed."""
    return reason not in FINAL


def _causes(error: BaseException | None, depth: int = 8) -> Iterator[BaseException]:
    """Yield an error, its causes, and the errors that Twisted wrapped in it."""
    if error is None or depth == 0:
        return
    yield error
    for wrapped in getattr(error, "reasons", None) or ():
        yield from _causes(getattr(wrapped, "value", None), depth - 1)
    yield from _causes(error.__cause__, depth - 1)
