"""From a request to its response: what :mod:`crawling.engine.download_handler` is to Scrapy.

The same gate in the same order: paid for, allowed to go there, in time; and the same is told of it.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import pycurl
from scrapy import Request
from scrapy.exceptions import DownloadTimeoutError
from scrapy.http import Response

from crawling.client.answer import download_latency, response_of
from crawling.client.clock import Clock
from crawling.client.multi import Multi
from crawling.client.transfer import Transfer
from crawling.failures import TransferFailed
from crawling.lease.holds import Holds
from crawling.net import trust
from crawling.net.address_guard import GuardedResolver, literal
from crawling.net.connections import allow_files
from crawling.page.page import Page
from crawling.response.site_feedback import reported
from crawlstream.boot.addresses import Address

_PORTS = {"http": 80, "https": 443}
_HOSTS_REMEMBERED = 10_000
_SPARE = 64
"""Handles that are kept for the next requests."""
_USUAL_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
"""Of Debian, Red Hat, SUSE and macOS, where OpenSSL itself knows of none."""


class HttpClient:
    """libcurl behind the gate."""

    def __init__(
        self,
        holds: Holds,
        resolver: GuardedResolver,
        *,
        timeout_s: float,
        most_bytes: int,
        verifies: bool | None,
        bind: tuple[str, int] | None = None,
        fails_on_data_loss: bool = True,
    ) -> None:
        """``timeout_s`` and ``most_bytes`` hold where a request's meta says nothing else."""
        self._holds = holds
        self._resolver = resolver
        self._timeout_s = timeout_s
        self._most_bytes = most_bytes
        self._verifies = verifies
        self._bind = bind
        self._fails_on_data_loss = fails_on_data_loss
        self._loop = asyncio.get_running_loop()
        self._multi = Multi(self._loop, allow_files())
        self._spare: list[Transfer] = []
        self._certificates = _certificates()

    async def fetch(self, request: Request, page: Page) -> Response:
        """Send one request; GrantExpired, AddressRefused, or why no response came."""
        self._holds.set_out(page)
        host, port = _place_of(request.url)
        addresses = self._resolver.known(host, port)
        if addresses is None:
            addresses = await self._resolver.resolve(host, port)
        return await reported(self._sent(request, page, addresses), page, self._holds)

    async def _sent(self, request: Request, page: Page, addresses: Collection[Address]) -> Response:
        transfer = self._spare.pop() if self._spare else self._new()
        is_plain = False
        try:
            is_plain = self._prepare(transfer, request, page, addresses)
            self._start_clock(transfer, request)
            is_lossy = await self._run(transfer, request)
            return self._answer(transfer, request, page, is_lossy=is_lossy)
        finally:
            self._keep(transfer, is_plain=is_plain)

    def _prepare(
        self, transfer: Transfer, request: Request, page: Page, addresses: Collection[Address]
    ) -> bool:
        """Tell libcurl all of a request; whether its handle may be used again."""
        host, port = _place_of(request.url)
        most = request.meta.get("download_maxsize", self._most_bytes)
        is_literal = literal(host) is not None
        transfer.begin(page, addresses, most=most, is_literal=is_literal)
        transfer.verify(trust.must_prove(request, page.hold, self._verifies))
        pinned = [] if is_literal else [_pin(host, port, addresses)]
        transfer.curl.setopt(pycurl.RESOLVE, pinned)
        transfer.curl.setopt(pycurl.MAXFILESIZE_LARGE, most)
        return _write(transfer.curl, request)

    async def _run(self, transfer: Transfer, request: Request) -> bool:
        """Whether there was an end before the response was complete, and that is taken as well."""
        try:
            await self._multi.run(transfer)
        except TransferFailed as error:
            fails = request.meta.get("download_fail_on_dataloss", self._fails_on_data_loss)
            if fails or not transfer.has_head or error.reason != "connection_lost":
                raise
            return True
        return False

    def _start_clock(self, transfer: Transfer, request: Request) -> None:
        timeout_s = request.meta.get("download_timeout") or self._timeout_s

        def end() -> None:
            words = f"no complete response within {timeout_s} s"
            transfer.end(DownloadTimeoutError(words))

        transfer.clock = Clock(self._loop, timeout_s, end)

    def _answer(
        self, transfer: Transfer, request: Request, page: Page, *, is_lossy: bool
    ) -> Response:
        if not transfer.is_paid:
            raise RuntimeError(f"libcurl has sent a request without asking: {request.url}")
        if not transfer.has_head:
            raise TransferFailed("connection_lost", "the connection broke in the head")
        request.meta["download_latency"] = download_latency(page.left_at, transfer.head_at)
        parts = transfer.body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        address = transfer.curl.getinfo(pycurl.PRIMARY_IP)
        flags = ["dataloss"] if is_lossy else []
        return response_of(request, transfer.head, body, address, flags=flags)

    def _new(self) -> Transfer:
        transfer = Transfer(self._loop, self._holds, self._multi.progress, bind=self._bind)
        for option, path in self._certificates.items():
            transfer.curl.setopt(option, path)
        return transfer

    def _keep(self, transfer: Transfer, *, is_plain: bool) -> None:
        transfer.head, transfer.body = [], []
        if is_plain and not transfer.is_paused and len(self._spare) < _SPARE:
            self._spare.append(transfer)
        else:
            # It holds what holds it: a circle that the garbage collector would be late for.
            transfer.curl.close()

    def close(self) -> None:
        """End all connections; nothing may be under way."""
        self._multi.close()


def _write(curl: pycurl.Curl, request: Request) -> bool:
    """Tell libcurl what to send; whether it is a plain GET."""
    scheme, _, rest = request.url.partition("://")
    netloc, target = _split(rest)
    # The target is written as it is: only scheme, host and port are libcurl's to read.
    curl.setopt(pycurl.URL, f"{scheme}://{netloc}/")
    curl.setopt(pycurl.REQUEST_TARGET, target)
    headers = [
        b"%b: %b" % (name, value) if value else b"%b;" % name
        for name, values in dict.items(request.headers)
        for value in values
    ]
    if b"Accept" not in request.headers:
        headers.append(b"Accept:")
    if request.method == "GET" and not request.body:
        curl.setopt(pycurl.HTTPHEADER, headers)
        return True
    if request.body:
        curl.setopt(pycurl.POSTFIELDS, request.body)
        headers.append(b"Expect:")
        if b"Content-Type" not in request.headers:
            headers.append(b"Content-Type:")
    elif request.method in {"POST", "PUT"}:
        headers.append(b"Content-Length: 0")
    if request.method == "HEAD":
        curl.setopt(pycurl.NOBODY, 1)
    else:
        curl.setopt(pycurl.CUSTOMREQUEST, request.method)
    curl.setopt(pycurl.HTTPHEADER, headers)
    return False


def _split(rest: str) -> tuple[str, str]:
    """Host and port, and what the first line of a request asks for."""
    rest = rest.partition("#")[0]
    netloc, slash, path = rest.partition("/")
    if "?" in netloc:
        netloc, _, query = rest.partition("?")
        return netloc, f"/?{query}"
    return netloc, f"{slash or '/'}{path}"


def _place_of(url: str) -> tuple[str, int]:
    scheme, _, rest = url.partition("://")
    return _host_and_port(scheme, _split(rest)[0])


@lru_cache(_HOSTS_REMEMBERED)
def _host_and_port(scheme: str, netloc: str) -> tuple[str, int]:
    host, _, port = netloc.rpartition(":") if not netloc.endswith("]") else (netloc, "", "")
    if not host:
        host, port = netloc, ""
    return host.strip("[]"), int(port) if port else _PORTS[scheme]


def _pin(host: str, port: int, addresses: Collection[Address]) -> str:
    """For libcurl's own memory of names, which forgets it after a minute."""
    return f"+{host}:{port}:{','.join(map(str, addresses))}"


def _certificates() -> dict[int, str]:
    """Where the certificates are that this machine trusts, as OpenSSL is told."""
    paths = ssl.get_default_verify_paths()
    found = {pycurl.CAINFO: paths.cafile, pycurl.CAPATH: paths.capath}
    known = {option: path for option, path in found.items() if path}
    if known or os.environ.get("SSL_CERT_FILE") or os.environ.get("SSL_CERT_DIR"):
        return known
    usual = next((path for path in _USUAL_CERTIFICATES if Path(path).exists()), None)
    return {pycurl.CAINFO: usual} if usual else {}
