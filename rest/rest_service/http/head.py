"""``HEAD``: the headers of ``GET`` for every route, without the body."""

from __future__ import annotations

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from crawlstream.tasks import end


class Heads:
    """Calls ``app`` with GET until it sends its headers; a stream is not begun."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}
        is_told = asyncio.Event()

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                is_told.set()

        answering = asyncio.ensure_future(self._app(asked, receive, send_head))
        told = asyncio.ensure_future(is_told.wait())
        try:
            await asyncio.wait([answering, told], return_when=asyncio.FIRST_COMPLETED)
            if not is_told.is_set():
                answering.result()
        finally:
            await end([answering, told])
        if "route" in asked:
            scope["route"] = asked["route"]
        await send({"type": "http.response.body", "body": b""})
