"""Builds of libcurl that requests can be made with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import pycurl

from crawling.net.connections import MOST_KEPT


@dataclass(frozen=True, slots=True)
class Libcurl:
    """A build of libcurl, by what looks like pycurl."""

    easy: Callable[[], Any]
    """Makes a handle, as ``pycurl.Curl``."""
    multi: Callable[[], Any]
    """Makes an engine, as ``pycurl.CurlMulti``."""
    most_kept: int
    """Direct connections, with those at work."""


def _plain() -> pycurl.Curl:
    curl = pycurl.Curl()
    curl.setopt(pycurl.HTTP_VERSION, pycurl.CURL_HTTP_VERSION_1_1)
    return curl


PLAIN: Final = Libcurl(_plain, pycurl.CurlMulti, MOST_KEPT)
"""pycurl's own, with OpenSSL; speaks HTTP/1.1."""
