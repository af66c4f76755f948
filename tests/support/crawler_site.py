"""A small web for the crawler's tests: what each path answers is written beside the test."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

HTML = {"Content-Type": "text/html; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a visitor gets."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: HTML)
    after_s: float = 0
    raw: bytes | None = None
    """Sent instead of everything else; then the connection is closed."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as the site saw it."""

    host: str
    path: str
    at: float
    """Monotonic seconds, when its last header was there."""
    headers: Mapping[str, str]
    method: str = "GET"


Page = Answer | Callable[[Visit], Answer]


def page(*links: str, text: str = "") -> Answer:
    """An HTML page with links."""
    anchors = "".join(f'<a href="{link}">{link}</a>' for link in links)
    return Answer(f"<html><body>{text}{anchors}</body></html>".encode())


class CrawlerSite:
    """Answers on every address of 127.0.0.0/8, and remembers who came."""

    def __init__(self, pages: Mapping[str, Page]) -> None:
        self.pages = dict(pages)
        self.visits: list[Visit] = []
        self.port = 0

    def url(self, path: str, host: str = "127.0.0.1") -> str:
        """Where a path is found."""
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """What was asked for, robots.txt left out."""
        return [visit.path for visit in self.visits if visit.path != "/robots.txt"]

    async def serve(self) -> asyncio.Server:
        """Listen on a free port."""
        server = await asyncio.start_server(self._talk, "0.0.0.0", self.port)
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._answer(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:])}
        method, path, _ = head[0].split(" ")
        await reader.readexactly(int(headers.get("content-length", 0)))
        host = headers["host"].partition(":")[0]
        visit = Visit(host, path, time.monotonic(), headers, method)
        self.visits.append(visit)
        found = self.pages.get(host + path, self.pages.get(path, Answer(status=404)))
        answer = found(visit) if callable(found) else found
        await asyncio.sleep(answer.after_s)
        writer.write(answer.raw if answer.raw is not None else _bytes(answer))
        await writer.drain()
        return answer.raw is None


def _bytes(answer: Answer) -> bytes:
    headers = {"Content-Length": str(len(answer.body)), **answer.headers}
    lines = [f"HTTP/1.1 {answer.status} X", *(f"{k}: {v}" for k, v in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + answer.body


@contextmanager
def serving(pages: Mapping[str, Page]) -> Iterator[CrawlerSite]:
    """Serve some pages from a thread of their own for the length of the block."""
    site, loop, started = CrawlerSite(pages), asyncio.new_event_loop(), threading.Event()

    async def run() -> None:
        async with await site.serve():
            started.set()
            await asyncio.Event().wait()

    def main() -> None:
        asyncio.set_event_loop(loop)
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(running)
        loop.close()

    running = loop.create_task(run())
    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    assert started.wait(5)
    try:
        yield site
    finally:
        loop.call_soon_threadsafe(running.cancel)
        thread.join(5)
