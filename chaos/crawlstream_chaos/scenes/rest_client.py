"""A client of REST as any user would write it, for processes that may die at any moment."""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple

import orjson

_PATIENCE_S = 90


class RestAnswer(NamedTuple):
    """An HTTP answer; status 0: none came, since the process is away or died meanwhile."""

    status: int
    retry_after_s: float = 1.0
    value: Any = None

    @property
    def data(self) -> Any:
        """The data of the envelope; None if there is none."""
        return self.value.get("data") if isinstance(self.value, dict) else None


async def call(port: int, method: str, path: str, body: object = None) -> RestAnswer:
    """Make one request on a connection of its own."""
    try:
        async with asyncio.timeout(_PATIENCE_S):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(_request(method, path, body))
                return await _answer(reader)
            finally:
                writer.close()
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return RestAnswer(0)


def _request(method: str, path: str, body: object) -> bytes:
    sent = b"" if body is None else orjson.dumps(body)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Connection: close\r\nContent-Length: {len(sent)}\r\n\r\n"
    )
    return head.encode() + sent


async def _answer(reader: asyncio.StreamReader) -> RestAnswer:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    is_json = headers.get("content-type", "").startswith("application/json")
    return RestAnswer(
        int(first.split()[1]),
        float(headers.get("retry-after", 1)),
        json.loads(body) if is_json and body else None,
    )
