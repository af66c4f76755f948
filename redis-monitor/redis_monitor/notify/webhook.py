"""A notice as a signed POST, as https://www.standardwebhooks.com describes it."""

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
from redis_monitor.notify.channel import NotAccepted, NotDelivered
from redis_monitor.notify.notice import Notice, encode_notice

TIMEOUT_S = 15.0
_PORTS = {"http": 80, "https": 443}
_LONGEST_LINE = 8192
_FINAL = frozenset({400, 404, 410, 413, 422})
"""Statuses that the same request gets again."""


class Webhook:
    """Posts notices to one URL; nothing but its status is read, and no redirect is followed."""

    name = "webhook"

    def __init__(self, settings: Settings) -> None:
        assert settings.notify_webhook
        assert settings.notify_webhook_secret
        self._url = urlsplit(settings.notify_webhook)
        self._secret = settings.notify_webhook_secret.get_secret_value().encode()
        self._guard = Guard(opened=settings.notify_networks, own=Interfaces())
        self._tls = ssl.create_default_context() if self._url.scheme == "https" else None

    async def send(self, notice: Notice) -> None:
        """Return when the receiver has answered with 2xx; else NotDelivered or NotAccepted."""
        try:
            async with asyncio.timeout(TIMEOUT_S):
                status = await self._post(notice.id, encode_notice(notice))
        except TimeoutError:
            raise NotDelivered(f"no answer within {TIMEOUT_S:g} s") from None
        except AddressRefused as error:
            raise NotDelivered(
                f"{error}; CRAWLSTREAM_NOTIFY_NETWORKS allows internal addresses"
            ) from error
        except (OSError, ValueError) as error:
            raise NotDelivered(str(error) or type(error).__name__) from error
        if not 200 <= status < 300:
            kind = NotAccepted if status in _FINAL else NotDelivered
            raise kind(f"answered with status {status}")

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
            "Content-Type: application/json",
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
