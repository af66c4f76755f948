"""STAND-IN of the gateway until it is merged."""

from __future__ import annotations

import asyncio
import base64
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from crawling.net.address_guard import GuardedResolver


@dataclass(slots=True)
class Pass:
    user: str
    password: str
    received: int = 0
    error: Exception | None = None
    passes: Any = None
    before_send: Any = None

    def __enter__(self) -> Pass:
        return self

    def __exit__(self, *_: object) -> None:
        del self.passes[self.user]

    def failure_of(self, host: str, port: int) -> Exception | None:
        return self.error


class Gateway:
    def __init__(self, holds: Any, resolver: GuardedResolver, routes: Any = None) -> None:
        self._resolver = resolver
        self._passes: dict[str, Pass] = {}
        self._server: Any = None
        self.address = ""

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"127.0.0.1:{port}"

    def close(self) -> None:
        if self._server:
            self._server.close()

    def admit(self, route: Any, *, most_bytes: int = 0, before_send: Any = None) -> Pass:
        entry = Pass(
            secrets.token_hex(8), secrets.token_hex(8), passes=self._passes, before_send=before_send
        )
        self._passes[entry.user] = entry
        return entry

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lines = head.split(b"\r\n")
                entry = None
                for line in lines:
                    name, _, value = line.partition(b":")
                    if name.lower() == b"proxy-authorization":
                        user, _, password = (
                            base64.b64decode(value.split()[-1]).decode().partition(":")
                        )
                        entry = self._passes.get(user)
                if entry is None:
                    writer.write(
                        b'HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm="x"\r\nContent-Length: 0\r\n\r\n'
                    )
                    await writer.drain()
                    continue
                break
            method, target, _ = lines[0].split(b" ")
            if method == b"CONNECT":
                host, _, port = target.decode().rpartition(":")
                port_n = int(port)
            else:
                parts = urlsplit(target.decode())
                host, port_n = parts.hostname or "", parts.port or 80
            try:
                addresses = await self._resolver.resolve(host.strip("[]"), port_n)
                up_r, up_w = await asyncio.open_connection(str(next(iter(addresses))), port_n)
                entry.before_send(host, port_n)
            except Exception as error:
                entry.error = error
                writer.write(
                    b"HTTP/1.1 403 Forbidden\r\nProxy-Status: crawlstream\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                writer.close()
                return
            if method == b"CONNECT":
                writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            else:
                parts = urlsplit(target.decode())
                path = parts.path or "/"
                if parts.query:
                    path += "?" + parts.query
                kept = [
                    l for l in lines[1:-2] if not l.lower().startswith((b"proxy-", b"connection:"))
                ]
                up_w.write(
                    b"\r\n".join(
                        [
                            b"%b %b HTTP/1.1" % (method, path.encode()),
                            *kept,
                            b"Connection: close",
                            b"",
                            b"",
                        ]
                    )
                )
            await asyncio.gather(self._pipe(reader, up_w, None), self._pipe(up_r, writer, entry))
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            with suppress(Exception):
                writer.close()

    async def _pipe(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, entry: Pass | None
    ) -> None:
        try:
            while data := await reader.read(65536):
                if entry:
                    entry.received += len(data)
                writer.write(
                    data.replace(b"\r\n", b"\r\nConnection: close\r\n", 1)
                    if entry and not entry.error and data.startswith(b"HTTP/1.")
                    else data
                )
                await writer.drain()
        except OSError:
            pass
        finally:
            with suppress(Exception):
                writer.close()


class Attempts:
    def __init__(self, routes: Any) -> None:
        pass

    async def run(self, pool: Any, page: Any, send: Any) -> Any:
        return await send(None)
