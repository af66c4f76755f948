"""A program with connections of its own, as the gateway meets it; speaks by raw sockets."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from crawling.gateway.gateway import Gateway, GatewayPass
from support.crawler.proxied import Bench
from support.crawler.visitor import Visitor


@dataclass(slots=True)
class Engine:
    """A connection to a gateway."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    login: str

    async def ask(self, first: str, *lines: str, body: bytes = b"") -> tuple[int, bytes]:
        """Send a request; status and head of the answer."""
        head = "\r\n".join((first, *lines, self.login, "", ""))
        self.writer.write(head.encode() + body)
        return await self.answer()

    async def connect(self, host: str, port: int) -> int:
        """Ask for a tunnel; the status."""
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return (await self.ask(f"CONNECT {where} HTTP/1.1", f"Host: {where}"))[0]

    async def get(self, host: str, path: str = "/") -> tuple[int, bytes]:
        """Ask for a page, in a tunnel; status and body."""
        self.writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        status, head = await self.answer()
        return status, await self.body(head)

    async def answer(self) -> tuple[int, bytes]:
        """The head of an answer; ConnectionError if there is none."""
        try:
            head = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 10)
        except asyncio.IncompleteReadError as error:
            raise ConnectionError("no answer") from error
        return int(head.split(b" ", 2)[1]), head

    async def body(self, head: bytes) -> bytes:
        """As many bytes as the head says."""
        said = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
        return await self.reader.readexactly(int(said[0].split(b":")[1]))

    async def start_tls(self) -> None:
        """As browsers do, within the tunnel; takes any certificate."""
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        await self.writer.start_tls(context)


@asynccontextmanager
async def engine(gateway: Gateway, owner: GatewayPass | None) -> AsyncIterator[Engine]:
    """A connection for the length of the block, with the token of ``owner``."""
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    said = b64encode(f"{owner.user}:{owner.password}".encode()).decode() if owner else ""
    login = f"Proxy-Authorization: Basic {said}" if owner else "X-Nobody: yes"
    try:
        yield Engine(reader, writer, login)
    finally:
        writer.transport.abort()


@asynccontextmanager
async def gateway_of(bench: Bench, visitor: Visitor) -> AsyncIterator[Gateway]:
    """A gateway for the length of the block."""
    gateway = Gateway(visitor.leases, visitor.resolver, bench.routes)
    await gateway.start()
    visitor.page("http://127.0.0.1/")  # Word from Redis.
    try:
        yield gateway
    finally:
        gateway.close()
