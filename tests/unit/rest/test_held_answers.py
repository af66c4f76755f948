"""Answers and events that wait for a client that reads slowly."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any

import pytest
from fastapi import Request
from starlette.types import Message

from rest_service.http.access import Client, Role
from rest_service.http.envelope import success
from rest_service.http.streaming import EVENTS, HeldAnswer, OpenStreams
from rest_service.v2.scrapes import scrape_routes
from rest_service.v2.scrapes.scrape_order import ScrapeOrder

LARGE = "x" * 300_000


class SlowClient:
    """Reads a piece each time that it is allowed to."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.reads = asyncio.Semaphore(0)
        self.has_left = False

    async def send(self, message: Message) -> None:
        """Take a message of the server when it is read."""
        await self.reads.acquire()
        if self.has_left:
            raise OSError
        self.pieces.append(message.get("body", b""))


async def receive() -> Message:
    """Wait: the client says nothing."""
    await asyncio.Event().wait()
    raise AssertionError


@pytest.mark.parametrize("has_left", [False, True])
async def test_an_answer_is_held_until_it_is_read(*, has_left: bool) -> None:
    """It is passed on in pieces; what it occupies is given back at its end, or if a client goes."""
    client, held, is_free = SlowClient(), AsyncExitStack(), asyncio.Event()
    held.callback(is_free.set)
    answer = HeldAnswer(success(LARGE), held)
    assert answer.headers["content-length"] == str(len(answer.body))
    sending = asyncio.create_task(answer({"type": "http"}, receive, client.send))
    for _ in range(3):
        client.reads.release()
    await asyncio.sleep(0.01)
    assert not is_free.is_set()
    assert max(map(len, client.pieces)) < len(LARGE) / 4
    client.has_left = has_left
    for _ in range(10):
        client.reads.release()
    await asyncio.wait([sending])
    assert is_free.is_set()
    assert (b"".join(client.pieces) == answer.body) is not has_left
    assert isinstance(sending.exception(), OSError if has_left else type(None))


async def test_an_event_of_a_client_that_has_left_holds_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A client that goes before the answer begins gives back the room of a recent page."""
    is_free = asyncio.Event()

    async def found(*_: Any, held: AsyncExitStack) -> dict[str, Any]:
        held.callback(is_free.set)
        return {"state": "done"}

    async def left() -> Message:
        await asyncio.sleep(0.01)
        return {"type": "http.disconnect"}

    monkeypatch.setattr(scrape_routes, "recent_page", found)
    service: Any = SimpleNamespace(streams=OpenStreams(asyncio.Event()))
    request = Request({"type": "http", "headers": [(b"accept", EVENTS.encode())]})
    order = ScrapeOrder(url="http://a.test/", max_age=60)
    answer = await scrape_routes.scrape(order, request, service, Client("me", Role.SUBMIT))
    client = SlowClient()
    sending = asyncio.create_task(answer({"type": "http"}, left, client.send))
    await asyncio.sleep(0.02)
    client.has_left = True
    client.reads.release()
    await asyncio.wait([sending])
    assert is_free.is_set()


async def test_an_event_is_not_made_before_the_last_one_is_read() -> None:
    """A client that reads slowly does not let events gather here."""
    made = list[int]()

    async def events() -> AsyncGenerator[bytes, None]:
        for number in range(3):
            made.append(number)
            yield LARGE.encode()

    streams, reads = OpenStreams(asyncio.Event()), SlowClient()
    answer = streams.events(Client("me", Role.READ), events())
    sending = asyncio.create_task(answer({"type": "http"}, receive, reads.send))
    for _ in range(3):
        reads.reads.release()
    await asyncio.sleep(0.01)
    assert made == [0]
    for _ in range(30):
        reads.reads.release()
    await asyncio.wait([sending], timeout=5)
    assert made == [0, 1, 2]
    assert b"".join(reads.pieces) == 3 * LARGE.encode()
