"""Pass a request to libcurl: its first line, its headers, its body and its destination."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache

import pycurl
from scrapy import Request

from crawlstream.boot.addresses import Address

_PORTS = {"http": 80, "https": 443}
_HOSTS_REMEMBERED = 10_000


def write(
    curl: pycurl.Curl, request: Request, signed: Sequence[bytes] = (), *, is_absolute: bool = False
) -> bool:
    """Pass a request to libcurl; return whether it is a plain GET.

    ``signed`` are the lines of its signature, if it has one. ``is_absolute``: the first line has
    the whole URL, as proxies want it.
    """
    base, target = base_and_target(request.url)
    curl.setopt(pycurl.URL, base)
    curl.setopt(pycurl.REQUEST_TARGET, base[:-1] + target if is_absolute else target)
    lines = header_lines(request)
    lines += signed
    curl.setopt(pycurl.HTTPHEADER, lines)
    if request.method == "GET" and not request.body:
        return True
    if request.body:
        curl.setopt(pycurl.POSTFIELDS, request.body)
    if request.method == "HEAD":
        curl.setopt(pycurl.NOBODY, 1)
    else:
        curl.setopt(pycurl.CUSTOMREQUEST, request.method)
    return False


def base_and_target(url: str) -> tuple[str, str]:
    """Return a URL's base (scheme, host, port) for libcurl, and its target, unchanged."""
    scheme, _, rest = url.partition("://")
    netloc, target = _split(rest)
    return f"{scheme}://{netloc}/", target


def header_lines(request: Request) -> list[bytes]:
    """Return a request's headers, and no others, as lines for libcurl."""
    headers = [
        b"%b: %b" % (name, value) if value else b"%b;" % name
        for name, values in dict.items(request.headers)
        for value in values
    ]
    if b"Accept" not in request.headers:
        headers.append(b"Accept:")
    if request.body:
        headers.append(b"Expect:")
        if b"Content-Type" not in request.headers:
            headers.append(b"Content-Type:")
    elif request.method in {"POST", "PUT"}:
        headers.append(b"Content-Length: 0")
    return headers


def _split(rest: str) -> tuple[str, str]:
    """Host and port, and what the first line of a request asks for."""
    rest = rest.partition("#")[0]
    netloc, slash, path = rest.partition("/")
    if "?" in netloc:
        netloc, _, query = rest.partition("?")
        return netloc, f"/?{query}"
    return netloc, f"{slash or '/'}{path}"


def place_of(url: str) -> tuple[str, int]:
    """Host, without brackets, and port that a URL leads to."""
    scheme, _, rest = url.partition("://")
    return _host_and_port(scheme, _split(rest)[0])


@lru_cache(_HOSTS_REMEMBERED)
def _host_and_port(scheme: str, netloc: str) -> tuple[str, int]:
    host, _, port = netloc.rpartition(":") if not netloc.endswith("]") else (netloc, "", "")
    if not host:
        host, port = netloc, ""
    return host.strip("[]"), int(port) if port else _PORTS[scheme]


def pin(host: str, port: int, addresses: Collection[Address]) -> str:
    """For libcurl's own memory of names, which forgets it after a minute."""
    return f"+{host}:{port}:{','.join(map(str, addresses))}"
