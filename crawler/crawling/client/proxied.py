"""Requests through a proxy, with libcurl's callbacks, and the blame for their failures."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Any, Final

import pycurl
from scrapy.exceptions import DownloadTimeoutError

from crawling.client.blame import Ending, blame_for
from crawling.client.curl_failures import HTTP_2
from crawling.client.transfer import Transfer, TransferCount
from crawling.egress.blame import Blame
from crawling.egress.route import Route
from crawling.failures import PathFailed, ProxyTrouble, TransferFailed, reason_of
from crawling.lease.leases import Leases
from crawlstream.boot.addresses import Address, AddressRefused

REACH_S: Final = 3.0
"""Timeout of a connection to a proxy."""
CONNECT_MS: Final = 15_000
"""From there to the site, TLS with both included."""
_IDLE_S = 30
"""Proxies have few places: what is idle for longer is not used again."""
_SOCKS5_AUTH: Final = 267
"""CURLOPT_SOCKS5_AUTH, which pycurl has no name for."""
_OF_THE_WAY = (AddressRefused, DownloadTimeoutError, TransferFailed)


class ProxiedTransfer(Transfer):
    """A handle that leaves through one proxy, and through nothing else."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        leases: Leases,
        progress: TransferCount,
        *,
        curl: Any,
        bind: tuple[str, int] | None,
        route: Route,
    ) -> None:
        super().__init__(loop, leases, progress, curl=curl, bind=bind)
        self._route = route
        self._reaching: asyncio.TimerHandle | None = None
        _lead(self.curl, route)

    def end(self, error: BaseException | None = None) -> None:
        """All has come, or nothing more will."""
        if self._reaching:
            self._reaching.cancel()
            self._reaching = None
        super().end(error)

    def on_socket(self, purpose: int, asked: Any) -> Any:
        """A connection to the proxy is to be made."""
        if not self.is_paid and self._reaching is None:
            self._reaching = self._loop.call_later(REACH_S, self._look)
        return super().on_socket(purpose, asked)

    def _look(self) -> None:
        if not self.curl.getinfo(pycurl.CONNECT_TIME):
            self.end(ProxyTrouble(Blame.PROXY, f"no connection within {REACH_S:g} s"))

    def on_head(self, line: bytes) -> int | None:
        """A line of a head; that of the answer to CONNECT comes before the request is written."""
        if self.is_paid:
            return super().on_head(line)
        self._progress.count += 1
        return None

    def failure(self, number: int, words: str) -> Exception:
        """Return why a request failed, and the cause to blame, without the address of the proxy."""
        if self.is_paid:
            failed = super().failure(number, words)
            is_sites = number in HTTP_2
            return ProxyTrouble(Blame.SITE, words, reason_of(failed)) if is_sites else failed
        info = self.curl.getinfo
        end = Ending(
            number=number,
            connect_code=info(pycurl.HTTP_CONNECTCODE),
            proxy_error=info(pycurl.PROXY_ERROR),
            was_reached=info(pycurl.CONNECT_TIME) > 0,
            is_tls_of_proxy=self._route.proxy.scheme == "https",
        )
        blame = blame_for(end)
        if blame is Blame.TLS:
            return ProxyTrouble(blame, words, reason_of(super().failure(number, words)))
        told = f"CONNECT {end.connect_code}" if end.connect_code else f"libcurl {number}"
        told = f"SOCKS {end.proxy_error}" if end.proxy_error else told
        return ProxyTrouble(blame, f"{blame.name.lower()} ({told})")

    def blamed(self, error: Exception) -> Exception:
        """Attribute an error to proxy, path or site; return other errors unchanged."""
        if isinstance(error, ProxyTrouble) or not isinstance(error, _OF_THE_WAY):
            return error
        if not self.is_paid and not isinstance(error, DownloadTimeoutError):
            return ProxyTrouble(Blame.PROXY, str(error))
        if self.was_kept:
            return PathFailed("connection_lost", str(error), is_silent=False)
        if self.has_head:
            return ProxyTrouble(Blame.SITE, str(error), reason_of(error))
        return ProxyTrouble(Blame.PATH, f"nothing came back: {reason_of(error)}")


def _lead(curl: pycurl.Curl, route: Route) -> None:
    """Have a handle leave through a proxy, whatever the environment says."""
    proxy, pool = route.proxy, route.pool
    is_socks = proxy.scheme == "socks5"
    # Names are looked up by the proxy as well; with `local` they are not sent to it.
    scheme = "socks5h" if is_socks and pool.dns == "check" else proxy.scheme
    curl.setopt(pycurl.PROXY, f"{scheme}://{proxy.address}")
    curl.setopt(pycurl.NOPROXY, "")
    curl.setopt(pycurl.HEADEROPT, pycurl.HEADER_SEPARATE)
    curl.setopt(pycurl.PROXYAUTH, pycurl.HTTPAUTH_BASIC)
    curl.setopt(_SOCKS5_AUTH, pycurl.HTTPAUTH_BASIC)
    curl.setopt(pycurl.CONNECTTIMEOUT_MS, CONNECT_MS)
    curl.setopt(pycurl.MAXAGE_CONN, _IDLE_S)
    if not is_socks:
        curl.setopt(pycurl.HTTPPROXYTUNNEL, int(pool.plain == "tunnel"))
    if route.credentials:
        user, password = route.credentials
        curl.setopt(pycurl.PROXYUSERNAME, user)
        curl.setopt(pycurl.PROXYPASSWORD, password.reveal())


def is_absolute(route: Route, url: str) -> bool:
    """Return whether the proxy is asked for the whole URL, and sees the request."""
    is_plain = url.startswith("http://") and route.pool.plain == "absolute"
    return is_plain and route.proxy.scheme != "socks5"


def straight_to(host: str, port: int, addresses: Collection[Address]) -> str:
    """Have the proxy connect to an address that was vetted instead of to a name."""
    address = next(iter(addresses))
    shown = f"[{address}]" if address.version == 6 else str(address)
    return f"{host}:{port}:{shown}:{port}"
