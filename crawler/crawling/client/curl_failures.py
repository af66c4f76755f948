"""Map libcurl's error codes to reasons of ``page_failed``."""

from __future__ import annotations

import errno
from collections.abc import Mapping

import pycurl

from crawling.failures import TransferFailed

HTTP_2 = frozenset({16, 92})
"""CURLE_HTTP2, CURLE_HTTP2_STREAM: what a site has said, whatever the connection went through."""
_REASONS: Mapping[int, str] = {
    pycurl.E_UNSUPPORTED_PROTOCOL: "bad_response",  # no HTTP/1.x, or none at all
    pycurl.E_URL_MALFORMAT: "invalid_request",
    pycurl.E_COULDNT_RESOLVE_HOST: "dns",
    pycurl.E_FTP_WEIRD_SERVER_REPLY: "bad_response",  # also from HTTP servers
    pycurl.E_PARTIAL_FILE: "connection_lost",
    pycurl.E_OPERATION_TIMEDOUT: "timeout",
    pycurl.E_GOT_NOTHING: "connection_lost",
    pycurl.E_SEND_ERROR: "connection_lost",
    pycurl.E_RECV_ERROR: "connection_lost",
    pycurl.E_BAD_CONTENT_ENCODING: "bad_response",  # a transfer encoding that was not requested
    **dict.fromkeys(HTTP_2, "connection_lost"),
    100: "connection_lost",  # CURLE_TOO_LARGE, which pycurl has no name for: a head without end
}
TLS = frozenset(
    {
        pycurl.E_SSL_CONNECT_ERROR,
        pycurl.E_SSL_ENGINE_NOTFOUND,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER,
        pycurl.E_SSL_SHUTDOWN_FAILED,
        pycurl.E_SSL_INVALIDCERTSTATUS,
    }
)
_UNTRUSTED = frozenset({pycurl.E_PEER_FAILED_VERIFICATION, pycurl.E_SSL_CACERT_BADFILE})
_UNANSWERED = frozenset({errno.ETIMEDOUT})


def failure_of(number: int, words: str, *, os_errno: int, must_prove: bool) -> Exception:
    """The error of a transfer; ``must_prove``: only a certificate that holds would have done."""
    return TransferFailed(_reason_of(number, os_errno, must_prove=must_prove), words)


def _reason_of(number: int, os_errno: int, *, must_prove: bool) -> str:
    if number == pycurl.E_COULDNT_CONNECT:
        if os_errno in _UNANSWERED:
            return "timeout"
        return "refused" if os_errno == errno.ECONNREFUSED else "unreachable"
    if number in _UNTRUSTED:
        return "certificate" if must_prove else "tls"
    return "tls" if number in TLS else _REASONS.get(number, "download_error")
