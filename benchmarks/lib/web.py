"""A synthetic web on 127.0.0.0/8: a thousand hosts, twenty links a page, one kilobyte; no storage.

Run as a program with a port, and with other numbers of links and bytes if wanted, it serves until
it is killed. Every page is a function of its URL; ``/served`` returns the number of requests.
It shares its machine with the crawlers, so it spends little: a page is put together from parts.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import lru_cache
from hashlib import shake_128
from struct import iter_unpack

import uvloop

HOSTS, PAGES_A_HOST, LINKS, PAGE_SIZE = 1_000, 1_000, 20, 1_024
OWN_SHARE = 0.6
_OWN_BELOW = int(OWN_SHARE * 0x10000)


def url(port: int, host: int, page: int) -> str:
    """Return where a page is."""
    return f"http://{address(host)}:{port}/p/{page}.html"


def address(host: int) -> str:
    """Return the address of a host by its number."""
    return f"127.1.{host // 250}.{1 + host % 250}"


def beginning(front_page: str) -> bytes:
    """Return how a link to a host begins, by the URL of its first page."""
    return f'<a href="{front_page}'.removesuffix("0.html").encode()


@lru_cache
def _beginnings(port: int) -> Sequence[bytes]:
    return [beginning(url(port, host, 0)) for host in range(HOSTS)]


_ENDINGS = [b'%d.html">next</a>' % page for page in range(PAGES_A_HOST)]


class Site(asyncio.Protocol):
    """Answers every request on a connection, whatever it asks."""

    served = 0

    def __init__(
        self, port: int, links: int, size: int, beginnings: Sequence[bytes] | None = None
    ) -> None:
        """``beginnings``: of links to each host, if they are others than this web's."""
        self._beginnings = beginnings or _beginnings(port)
        self._port = port
        self._links = links
        self._size = size
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer, and as which host."""
        self._transport = transport
        self._address = str(transport.get_extra_info("sockname")[0]).encode()
        *_, block, number = map(int, self._address.split(b"."))
        self._host = (block * 250 + number - 1) % len(self._beginnings)

    def data_received(self, data: bytes) -> None:
        """Answer each request that is complete."""
        self._received += data
        while b"\r\n\r\n" in self._received:
            head, _, self._received = self._received.partition(b"\r\n\r\n")
            self._transport.write(self._answer(head))  # type: ignore[attr-defined]

    def _answer(self, head: bytes) -> bytes:
        if head.startswith(b"GET /served "):
            told = str(Site.served).encode()
            return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(told) + told
        Site.served += 1
        links = b"".join(self._links_of(head.split(b"\r\n", 1)[0]))
        body = (b"<html><body>%b</body></html>" % links).ljust(self._size)
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )

    def _links_of(self, page: bytes) -> Sequence[bytes]:
        """Most lead to other pages of the host; the others anywhere."""
        chance = shake_128(page + self._address).digest(6 * self._links)
        return [
            self._beginnings[self._host if own < _OWN_BELOW else host % len(self._beginnings)]
            + _ENDINGS[number % PAGES_A_HOST]
            for own, host, number in iter_unpack("<3H", chance)
        ]


async def serve(
    port: int, links: int = LINKS, size: int = PAGE_SIZE, *, kind: type[Site] = Site
) -> None:
    """Serve until killed."""
    loop = asyncio.get_running_loop()
    every_host = "0.0.0.0"  # noqa: S104  a thousand addresses of 127.0.0.0/8
    server = await loop.create_server(
        lambda: kind(port, links, size), every_host, port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))
