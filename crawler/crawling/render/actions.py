"""Actions in a page that is ready: real input, bounded in number and time, whatever it does.

A step of an action ends when the page is still again: the requests that began with it are answered,
and the document has not changed for half a second. The requests are judged like all others of the
page. A click that would hit something else, such as a banner above the element, is not done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from crawling.render.cdp import CommandFailed, Pipe
from crawling.render.document import Document
from crawling.render.script import SCROLL, STILL, fill, grown, point_in, select, wait_for
from crawlstream.model.egress.render import VERBS

_ALL_S = 60.0
"""Seconds for all actions of a page."""
_STEP_S = 15.0
"""Seconds for one step: a script that keeps the page busy costs no more."""
_APPEARS_S = 10.0
"""Seconds in which an element to wait for appears."""
_ANSWERED_S = 8.0
"""Seconds in which the requests of a step are answered; later answers are not waited for."""
_NO_ELEMENT = "no_element"
_KEYS: Mapping[str, tuple[int, str]] = {
    "Enter": (13, "\r"),
    "Tab": (9, ""),
    "Escape": (27, ""),
    "Backspace": (8, ""),
    "Delete": (46, ""),
    "ArrowLeft": (37, ""),
    "ArrowUp": (38, ""),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
    "PageUp": (33, ""),
    "PageDown": (34, ""),
    "Home": (36, ""),
    "End": (35, ""),
}
"""Codes of keys with a name, and the text that they enter."""

_Action = Mapping[str, Any]


class CannotAct(Exception):
    """An action cannot be done; the text is the ``error`` of the result."""


class OpenRequests:
    """Requests of a page that have no answer yet, and its tries to lead elsewhere."""

    def __init__(self) -> None:
        self._open: set[str] = set()
        self._ended = asyncio.Event()
        self.led_away = False
        """True if the page has tried to lead to another one, to which it must not lead."""

    def begin(self, request: str) -> None:
        """Note a request, by the browser's name; "": it has none, and its end is not reported."""
        if request:
            self._open.add(request)

    def end(self, request: str) -> None:
        """Note the end of a request."""
        self._open.discard(request)
        self._ended.set()

    def open(self) -> frozenset[str]:
        """Return the requests that have not ended."""
        return frozenset(self._open)

    async def wait(self, before: frozenset[str]) -> None:
        """Wait until all requests but those before have ended."""
        while self._open - before:
            self._ended.clear()
            await self._ended.wait()


@dataclass(slots=True)
class Actor:
    """Performs the actions of one page."""

    pipe: Pipe
    session: str
    document: Document
    requests: OpenRequests
    _before: frozenset[str] = frozenset()
    """Requests that had begun before the step: some pages always wait for one."""

    async def perform(self, actions: Sequence[_Action]) -> Sequence[Mapping[str, object]]:
        """Perform actions up to the first that cannot be done; return the effect of each."""
        until, told = asyncio.get_running_loop().time() + _ALL_S, []
        for action in actions:
            verb = next(verb for verb in VERBS if verb in action)
            effect = {verb: action[verb], "times": 0}
            told.append(effect)
            if error := await self._performed(verb, action, effect, until):
                effect["error"] = error
                break
        return told

    async def _performed(
        self, verb: str, action: _Action, effect: dict[str, Any], until: float
    ) -> str:
        """Perform one action, counting its steps in ``effect``; return why it could not be done."""
        step, clock = _STEPS[verb], asyncio.get_running_loop().time
        most = action["scroll"] if verb == "scroll" else action.get("times", 1)
        try:
            while effect["times"] < most:
                self._before, self.requests.led_away = self.requests.open(), False
                async with asyncio.timeout_at(min(until, clock() + _STEP_S)):
                    if not await step(self, action):
                        break
                    effect["times"] += 1
                    if verb not in _AT_REST:
                        await self._rest()
                if self.requests.led_away and verb != "wait":
                    return "led_away"
        except CannotAct as reason:
            return str(reason)
        except TimeoutError:
            return "timeout"
        except CommandFailed:
            return "failed"
        return ""

    # Steps: each returns whether it was done.

    async def _scroll(self, _action: _Action) -> bool:
        """Scroll to the end; done if the page has grown by it."""
        before = await self._value(SCROLL)
        while True:
            after = await self._value(grown(before))
            if not self.requests.open() - self._before or not await self._is_answered():
                return bool(after > before)

    async def _click(self, action: _Action) -> bool:
        try:
            place = await self._point(action["click"])
        except CannotAct as reason:
            if str(reason) == _NO_ELEMENT:
                return False
            raise
        button = {"button": "left", "clickCount": 1}
        await asyncio.gather(
            self._mouse("mouseMoved", place),
            self._mouse("mousePressed", place, buttons=1, **button),
            self._mouse("mouseReleased", place, **button),
        )
        return True

    async def _hover(self, action: _Action) -> bool:
        await self._mouse("mouseMoved", await self._point(action["hover"]))
        return True

    async def _wait(self, action: _Action) -> bool:
        wanted = action["wait"]
        if isinstance(wanted, int):
            await asyncio.sleep(wanted / 1000)
            return True
        async with asyncio.timeout(_APPEARS_S):
            if await self.document.run(wait_for(wanted)) is None:
                raise CannotAct("bad_selector")
        return True

    async def _fill(self, action: _Action) -> bool:
        await self._value(fill(action["fill"], action["text"]))
        return True

    async def _select(self, action: _Action) -> bool:
        await self._value(select(action["select"], action["value"]))
        return True

    async def _press(self, action: _Action) -> bool:
        key = action["press"]
        # Codes of other characters would be those of keys with a name: "!" would be PageUp.
        has_code = key.isascii() and (key.isalnum() or key == " ")
        code, text = _KEYS.get(key) or (ord(key.upper()) if has_code else 0, key)
        named = {
            "key": key,
            "windowsVirtualKeyCode": code,
            **({"code": key} if key in _KEYS else {}),
        }
        down = {"type": "keyDown", "text": text} if text else {"type": "rawKeyDown"}
        ask = self.pipe.begin_call
        await asyncio.gather(
            ask("Input.dispatchKeyEvent", self.session, **down, **named),
            ask("Input.dispatchKeyEvent", self.session, type="keyUp", **named),
        )
        return True

    # Parts of steps.

    async def _value(self, script: str) -> Any:
        """Return the value of a script; raise CannotAct for a text, which is an error."""
        value = await self.document.run(script)
        if value is None:
            raise CannotAct("failed")
        if isinstance(value, str):
            raise CannotAct(value)
        return value

    async def _point(self, selector: str) -> tuple[float, float]:
        x, y = await self._value(point_in(selector))
        return x, y

    def _mouse(self, kind: str, place: tuple[float, float], **more: object) -> asyncio.Future[Any]:
        named: dict[str, object] = {"type": kind, "x": place[0], "y": place[1], **more}
        return self.pipe.begin_call("Input.dispatchMouseEvent", self.session, **named)

    async def _rest(self) -> None:
        """Wait until the page is still, and the requests that began with the step are answered."""
        await self.document.run(STILL)
        while self.requests.open() - self._before and await self._is_answered():
            await self.document.run(STILL)

    async def _is_answered(self) -> bool:
        """Wait for the requests that began with the step; return whether they ended in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_ANSWERED_S):
                await self.requests.wait(self._before)
                return True
        return False


_STEPS: Mapping[str, Callable[[Actor, _Action], Awaitable[bool]]] = {
    "scroll": Actor._scroll,  # noqa: SLF001  its own
    "click": Actor._click,  # noqa: SLF001
    "wait": Actor._wait,  # noqa: SLF001
    "fill": Actor._fill,  # noqa: SLF001
    "press": Actor._press,  # noqa: SLF001
    "select": Actor._select,  # noqa: SLF001
    "hover": Actor._hover,  # noqa: SLF001
}
"""Steps by the verb of their action."""
_AT_REST = frozenset({"scroll", "wait"})
"""Verbs after which the page is as still as it has to be."""
