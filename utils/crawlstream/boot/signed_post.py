"""Signed POST to one URL, as https://www.standardwebhooks.com describes it."""

from __future__ import annotations

import asyncio
import hmac
import socket
import ssl
import time
from base64 import b64encode
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import urlsplit  # noqa: TID251  settings, of any scheme

from crawlstream.boot.addresses import Address, AddressRefused, Guard, Interfaces
from crawlstream.boot.settings import Settings
from crawlstream.errors import CrawlstreamError

TIMEOUT_S = 15.0
_PORTS = {"http": 80, "https": 443}
_LONGEST_LINE = 8192
_FINAL = frozenset({400, 404, 410, 413, 422})
"""Statuses that the same request gets again."""


class PostFailed(CrawlstreamError):
    """The receiver did not take a message; it is worth another attempt."""

    def __init__(self, why: str, *, is_final: bool = False) -> None:
        super().__init__(why)
        self.is_final = is_final
        """True if it refuses this message, however often it is sent; others may be taken."""


class SignedPost:
    """Posts messages; nothing but the status of an answer is read, and no redirect is followed.

    Only addresses that the guard of crawled pages lets pass are connected to; internal ones are
    those of CRAWLSTREAM_NOTIFY_NETWORKS.
    """

    def __init__(
        self, url: str, secret: str, settings: Settings, *, content_type: str = "application/json"
    ) -> None:
        self._url = urlsplit(url)
        self._secret = secret.encode()
        self._content_type = content_type
        self._guard = Guard(settings.notify_networks, settings.deny_networks, Interfaces())
        self._tls = ssl.create_default_context() if self._url.scheme == "https" else None

    async def send(self, name: str, body: bytes) -> None:
        """Return when the receiver has answered with 2xx; else PostFailed.

        ``name`` is the id of the message, by which the receiver knows a repetition.
        """
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status = await self._post(name, body)
        except TimeoutError:
            raise PostFailed(f"no answer within {TIMEOUT_S:g} s") from None
        except AddressRefused as error:
            raise PostFailed(
                f"{error}; CRAWLSTREAM_NOTIFY_NETWORKS allows internal addresses"
            ) from error
        except (OSError, ValueError) as error:
            raise PostFailed(str(error) or type(error).__name__) from error
        if not 200 <= status < 300:
            raise PostFailed(f"answered with status {status}", is_final=status in _FINAL)

    async def _post(self, name: str, body: bytes) -> int:
        host, port = self._url.hostname or "", self._url.port or _PORTS[self._url.scheme]
        found = self._guard.vet(await _resolved(host, port), port)
        # To the address that was looked at: a second look-up might say another one.
        reader, writer = await asyncio.open_connection(
            str(found[0]),
            port,
            ssl=self._tls,
            server_hostname=host if self._tls else None,
            limit=_LONGEST_LINE,
        )
        try:
            writer.write(self._head(name, body) + body)
            await writer.drain()
            return _status(await reader.readline())
        finally:
            writer.close()

    def _head(self, name: str, body: bytes) -> bytes:
        at = int(time.time())
        path = self._url.path or "/"
        lines = (
            f"POST {path}{'?' + self._url.query if self._url.query else ''} HTTP/1.1",
            f"Host: {self._url.netloc}",
            "User-Agent: crawlstream",
            f"Content-Type: {self._content_type}",
            f"Content-Length: {len(body)}",
            f"Webhook-Id: {name}",
            f"Webhook-Timestamp: {at}",
            f"Webhook-Signature: {signature(self._secret, name, at, body)}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", "")).encode()


def signature(secret: bytes, name: str, at: int, body: bytes) -> str:
    """``v1,`` and the base64 of the HMAC-SHA256 of id, time and body, with points between them."""
    signed = b"%b.%d.%b" % (name.encode(), at, body)
    return "v1," + b64encode(hmac.digest(secret, signed, "sha256")).decode()


async def _resolved(host: str, port: int) -> Sequence[Address]:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [ip_address(str(place[0]).partition("%")[0]) for *_, place in found]


def _status(line: bytes) -> int:
    """Return the status of ``HTTP/1.1 204 No Content``; ValueError for any other line."""
    parts = line.split()
    if len(parts) < 2 or not parts[0].startswith(b"HTTP/") or not parts[1].isdigit():
        raise ValueError("the answer is not HTTP")
    return int(parts[1])
