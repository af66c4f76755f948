"""The DevTools protocol through a pipe: commands, answers and events.

Messages are JSON, each ended by a zero byte. A *session* is one target: a page, a frame of another
site, a worker. A message without a session is about the browser itself.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from typing import Any

import orjson

Told = Mapping[str, Any]
Hear = Callable[[str, str, Told], None]
"""Callback with session, method and parameters of an event."""

_ANSWER_S = 20.0


class BrowserGone(Exception):
    """The browser has ended or does not answer."""


class CommandFailed(Exception):
    """The browser has refused a command: its target may have gone."""


class Pipe:
    """A browser at the other end of two pipes."""

    def __init__(self, reader: asyncio.StreamReader, write: Callable[[bytes], object]) -> None:
        self._reader = reader
        self._write = write
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._listeners: dict[str, Hear] = {}
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the pipe has ended."""

    @property
    def is_gone(self) -> bool:
        """Return whether the pipe has ended."""
        return self.gone.done()

    def listen(self, session: str, hear: Hear) -> None:
        """Call ``hear`` with the events of a session."""
        self._listeners[session] = hear

    def leave(self, session: str) -> None:
        """Stop listening to a session."""
        self._listeners.pop(session, None)

    def send(self, method: str, session: str = "", /, **parameters: object) -> int:
        """Send a command without waiting for its answer; return its number."""
        number = next(self._numbers)
        command: dict[str, object] = {"id": number, "method": method, "params": parameters}
        if session:
            command["sessionId"] = session
        if not self.is_gone:
            try:
                self._write(orjson.dumps(command) + b"\0")
            except OSError:
                self.end()
        return number

    async def call(
        self,
        method: str,
        session: str = "",
        /,
        *,
        within_s: float = _ANSWER_S,
        **parameters: object,
    ) -> Any:
        """Send a command and return its answer; BrowserGone, or CommandFailed."""
        answer = self.begin_call(method, session, **parameters)
        try:
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            raise BrowserGone(f"{method}: no answer within {within_s:g} s") from None

    def begin_call(
        self, method: str, session: str = "", /, **parameters: object
    ) -> asyncio.Future[Any]:
        """Send a command and return a future of its answer."""
        number = self.send(method, session, **parameters)
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(_retrieved)
        if self.is_gone:
            answer.set_exception(BrowserGone("the browser has ended"))
        else:
            self._answers[number] = answer
        return answer

    async def run(self) -> None:
        """Deliver answers and events until the pipe closes."""
        try:
            while True:
                self._take(_parsed((await self._reader.readuntil(b"\0"))[:-1]))
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass
        finally:
            self.end()

    def _take(self, message: Told) -> None:
        if "id" not in message:
            session = message.get("sessionId", "")
            if hear := self._listeners.get(session):
                hear(session, message["method"], message.get("params", {}))
            return
        answer = self._answers.pop(message["id"], None)
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(CommandFailed(str(message["error"].get("message"))))
        else:
            answer.set_result(message["result"])

    def end(self) -> None:
        """Close the pipe: all pending and later commands fail with BrowserGone."""
        if not self.gone.done():
            self.gone.set_result(None)
        answers, self._answers = self._answers, {}
        for answer in answers.values():
            if not answer.done():
                answer.set_exception(BrowserGone("the browser has ended"))


def _parsed(message: bytes) -> Told:
    try:
        told: Told = orjson.loads(message)
    except orjson.JSONDecodeError:
        # Half a surrogate pair from a script, which only the lenient parser reads.
        told = json.loads(message.decode("utf-8", "replace"))
    return told


def _retrieved(answer: asyncio.Future[Any]) -> None:
    """Retrieve an error without a waiter: a target may end while it is sent commands."""
    if not answer.cancelled():
        answer.exception()
