"""Receivers of notifications that can be counted on, or made to refuse: a web and a mail server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from typing import Any

_Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Receiver:
    """Received messages, and the answers to the next ones."""

    port: int = 0
    refusals: int = 0
    """Number of messages that are refused first."""
    refusal: str = "302 Found"
    """The status of these, of the web."""
    refused: str = ""
    """Webhooks whose bodies have this text are refused; empty: none."""
    is_silent: bool = False
    """True: a webhook is read, and not answered."""
    tried: int = 0
    messages: list[Any] = field(default_factory=list)
    """Webhooks as (headers, body), mail as the text of the message."""

    def takes(self) -> bool:
        """Return whether this message is accepted."""
        self.tried += 1
        self.refusals -= 1
        return self.refusals < 0

    def told(self) -> list[Mapping[str, Any]]:
        """The bodies of what was posted."""
        return [json.loads(body) for _, body in self.messages]


@asynccontextmanager
async def web_receiver() -> AsyncIterator[Receiver]:
    """A web server that takes what is posted."""
    receiver = Receiver()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
        kept = {"request": head[0]} | dict(line.split(": ", 1) for line in head[1:] if line)
        body = await reader.readexactly(int(headers["content-length"]))
        if receiver.is_silent:
            await reader.read()
        elif receiver.takes() and not (receiver.refused and receiver.refused in body.decode()):
            receiver.messages.append((kept, body))
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            answer = f"HTTP/1.1 {receiver.refusal}\r\nLocation: /elsewhere\r\n\r\n"
            writer.write(answer.encode())

    async with _listening(serve, receiver):
        yield receiver


@asynccontextmanager
async def mail_receiver() -> AsyncIterator[Receiver]:
    """A mail server that takes what is sent, without TLS."""
    receiver = Receiver()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 here\r\n")
        while line := await reader.readline():
            verb = line[:4].strip().upper()
            if verb == b"DATA":
                writer.write(b"354 go on\r\n")
                text = await reader.readuntil(b"\r\n.\r\n")
                is_taken = receiver.takes()
                if is_taken:
                    receiver.messages.append(text.decode())
                writer.write(b"250 taken\r\n" if is_taken else b"451 later\r\n")
            elif verb == b"QUIT":
                writer.write(b"221 bye\r\n")
                break
            else:
                writer.write(b"250 fine\r\n")

    async with _listening(serve, receiver):
        yield receiver


@asynccontextmanager
async def _listening(serve: _Serve, receiver: Receiver) -> AsyncIterator[None]:
    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # A sender that is killed leaves half a message, or none.
        with closing(writer), suppress(asyncio.IncompleteReadError, ConnectionError):
            await serve(reader, writer)

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    receiver.port = server.sockets[0].getsockname()[1]
    async with server:
        yield
