"""A synthetic web on 127.0.0.0/8: a thousand hosts, twenty links a page, one kilobyte; no storage.

Run as a program with a port, and with other numbers of links and bytes if wanted, it serves until
it is killed. Every page is a function of its URL; ``/served`` tells how many pages were asked for.
"""

from __future__ import annotations

import asyncio
import random
import sys

import uvloop

HOSTS, PAGES_A_HOST, LINKS, PAGE_SIZE = 1_000, 1_000, 20, 1_024
OWN_SHARE = 0.6


def url(port: int, host: int, page: int) -> str:
    """Where a page is."""
    return f"http://127.1.{host // 250}.{1 + host % 250}:{port}/p/{page}.html"


class Site(asyncio.Protocol):
    """Answers every request on a connection, whatever it asks."""

    served = 0

    def __init__(self, port: int, links: int, size: int) -> None:
        self._port = port
        self._links = links
        self._size = size
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to answer."""
        self._transport = transport

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
        chance = random.Random(head.split(b"\r\n", 1)[0] + self._local_address())
        links = "".join(f'<a href="{self._link(chance)}">next</a>' for _ in range(self._links))
        body = f"<html><body>{links}</body></html>".encode().ljust(self._size)
        return (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
            b"Content-Length: %d\r\n\r\n" % len(body) + body
        )

    def _local_address(self) -> bytes:
        return str(self._transport.get_extra_info("sockname")[0]).encode()

    def _link(self, chance: random.Random) -> str:
        own = self._local_address().split(b".")
        host = int(own[2]) * 250 + int(own[3]) - 1
        if chance.random() > OWN_SHARE:
            host = chance.randrange(HOSTS)
        return url(self._port, host, chance.randrange(PAGES_A_HOST))


async def serve(port: int, links: int = LINKS, size: int = PAGE_SIZE) -> None:
    """Serve for ever."""
    loop = asyncio.get_running_loop()
    every_host = "0.0.0.0"  # noqa: S104  a thousand addresses of 127.0.0.0/8
    server = await loop.create_server(
        lambda: Site(port, links, size), every_host, port, backlog=4096
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))
