"""Failures: every error of a download has a name, and the charset of a page too."""

from __future__ import annotations

from typing import Any

import pytest
from OpenSSL import SSL
from scrapy.exceptions import (
    CannotResolveHostError,
    DownloadCancelledError,
    DownloadConnectionRefusedError,
    DownloadFailedError,
    DownloadTimeoutError,
    ResponseDataLossError,
)
from scrapy.http import HtmlResponse, Response
from service_identity import VerificationError
from twisted.internet import error as net
from twisted.python.failure import Failure
from twisted.web._newclient import ParseError
from twisted.web.client import ResponseNeverReceived

from crawling.failures import BadEncoding, BadStatus, TooLarge, is_retryable, reason_of
from crawling.response.charset import with_charset
from crawling.response.codings import codings_of, unpacked
from crawlstream.boot.addresses import AddressRefused


def untyped(kind: Any) -> Any:
    """Twisted's classes come without types."""
    return kind


def wrapped(cause: Exception) -> Exception:
    """An error as Scrapy's handler raises it, around Twisted's, around the cause."""
    error = DownloadFailedError("x")
    error.__cause__ = untyped(ResponseNeverReceived)([untyped(Failure)(cause)])
    return error


@pytest.mark.parametrize(
    ("error", "reason", "retries"),
    [
        (CannotResolveHostError("x"), "dns", True),
        (DownloadConnectionRefusedError("x"), "refused", True),
        (DownloadTimeoutError("x"), "timeout", True),
        (wrapped(untyped(net.TCPTimedOutError)()), "timeout", True),
        (untyped(net.NoRouteError)(), "unreachable", True),
        (wrapped(net.ConnectionLost()), "connection_lost", True),
        (wrapped(net.ConnectionDone()), "connection_lost", True),
        (ResponseDataLossError("x"), "connection_lost", True),
        (wrapped(SSL.Error([])), "tls", True),
        (
            wrapped(SSL.Error([("SSL routines", "", "certificate verify failed")])),
            "certificate",
            False,
        ),
        (wrapped(VerificationError([])), "certificate", False),
        (wrapped(untyped(ParseError)("x", b"")), "bad_response", True),
        (wrapped(ValueError("conflicting Content-Length headers")), "bad_response", True),
        (BadStatus("x"), "bad_response", True),
        (DownloadCancelledError("x"), "too_large", False),
        (TooLarge("x"), "too_large", False),
        (BadEncoding("x"), "bad_encoding", False),
        (AddressRefused("x"), "address_refused", False),
        (ValueError("x"), "invalid_request", False),
        (RuntimeError("x"), "download_error", True),
    ],
)
def test_every_error_has_its_code(error: Exception, reason: str, retries: bool) -> None:  # noqa: FBT001
    """The code names the failure, and whether another attempt may help."""
    assert reason_of(error) == reason
    assert is_retryable(reason) is retries


def test_a_cycle_of_causes_ends() -> None:
    """Errors that were raised from each other are looked at a bounded number of times."""
    first, second = RuntimeError("a"), RuntimeError("b")
    first.__cause__, second.__cause__ = second, first
    assert reason_of(first) == "download_error"


@pytest.mark.parametrize(
    ("body", "content_type", "encoding"),
    [
        (b"plain", "text/html", "cp1252"),
        ("Grüße".encode("latin-1"), "text/html", "cp1252"),
        ("Grüße".encode(), "text/html", "utf-8"),
        ("Grüße".encode("latin-1"), "text/html; charset=iso-8859-1", "cp1252"),
        ("ένα".encode("iso-8859-7"), "text/html; charset=iso-8859-7", "iso8859-7"),
        (b'<meta charset="shift_jis">\x83\x65', "text/html", "cp932"),
        ("x".encode("utf-16"), "text/html", "utf-16-le"),
        (b"x" * (2**20 - 1) + "ü".encode(), "text/html", "utf-8"),
        (b"x" * 2**20 + b"\xfc", "text/html", "cp1252"),
        (b"x" * 2**20 + b"\xc3", "text/html", "cp1252"),
    ],
)
def test_an_undeclared_charset_is_what_it_always_was(
    body: bytes, content_type: str, encoding: str
) -> None:
    """Declared charsets count; otherwise UTF-8 if it is, and cp1252 if not. No statistics."""
    response = HtmlResponse("http://a.example/", body=body, headers={"Content-Type": content_type})
    settled = with_charset(response)
    assert isinstance(settled, HtmlResponse)
    assert settled.encoding == encoding


def test_binary_has_no_charset() -> None:
    """Bytes that are not text are left alone."""
    response = Response("http://a.example/", body=b"\xff\xfe")
    assert with_charset(response) is response


@pytest.mark.parametrize("said", ["utf-8", "none", "identity", "", "text/html", "gzipped"])
def test_a_coding_that_is_none_is_passed_over(said: str) -> None:
    """Ignores an unknown coding, as browsers do: the page is text, and keeps its header."""
    headers: Any = {"Content-Type": "text/html", "Content-Encoding": said}
    response = Response("http://a.example/", headers=headers, body=b"<a href=/x>")
    assert not codings_of(response)
    found = unpacked(response)
    assert isinstance(found, HtmlResponse)
    assert found.headers[b"Content-Encoding"] == said.encode()


@pytest.mark.parametrize("said", ["gzip", "GZIP", "br, identity", "compress", "x-gzip"])
def test_a_packed_body_is_known(said: str) -> None:
    """Recognizes a packed body, also by an unsupported coding: it is not text."""
    headers: Any = {"Content-Encoding": said}
    assert codings_of(Response("http://a.example/", headers=headers))
