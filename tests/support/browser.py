"""Chromium without a window, steered through a pipe by its DevTools protocol, for tests."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from crawlstream.tasks import beside
from crawlstream_extract.workers.tether import die_with_parent

NAMES = ("chromium", "chromium-browser", "google-chrome")
_ANSWER_S = 60
_TRIES = 5
_LONGEST = 64 * 1024 * 1024
_READS, _WRITES = 3, 4
"""The descriptors that Chromium expects its commands and writes its answers on."""
_QUIET = (
    *("--headless", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-extensions", "--disable-sync"),
    *("--disable-component-update", "--hide-scrollbars", "--remote-debugging-pipe"),
)


def find_chromium() -> str:
    """Return the program; if it is missing, fail with a remedy."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        raise AssertionError(
            "Chromium is missing, in which the dashboard is tested: apt-get install chromium"
        )
    return found


class Tab:
    """A page of the browser, and all errors on it."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session
        self.complaints: list[str] = []
        """Errors and warnings of the console, exceptions of scripts, requests that failed."""
        self.dialogs: list[str] = []
        """Texts of ``alert`` and similar dialogs."""
        self._loaded: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        """By the name that each loading of a document has."""
        self._next_load = asyncio.Event()

    async def call(self, method: str, **parameters: object) -> Any:
        """Send a command of the protocol to this page."""
        return await self._browser.call(method, parameters, session=self._session)

    async def go(self, url: str) -> None:
        """Open a URL and wait until it is loaded, scripts and all."""
        answer = await self.call("Page.navigate", url=url)
        assert "errorText" not in answer, (url, answer)
        async with asyncio.timeout(_ANSWER_S):
            await self._loaded[answer["loaderId"]].wait()

    async def run(self, script: str) -> Any:
        """The value of an expression of JavaScript, waited for if it is a promise."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, (script, answer["exceptionDetails"])
        return answer["result"].get("value")

    async def leave(self, script: str) -> None:
        """Run what leads to another page, and wait until that one is loaded."""
        self._next_load.clear()
        await self.run(script)
        async with asyncio.timeout(_ANSWER_S):
            await self._next_load.wait()

    async def text(self, selector: str = "body") -> str:
        """Return the visible text of the first element that matches; "" without one."""
        name = json.dumps(selector)
        return str(await self.run(f"document.querySelector({name})?.innerText ?? ''"))

    async def click(self, selector: str) -> None:
        """Click on the first element that fits."""
        await self.run(f"document.querySelector({json.dumps(selector)}).click()")

    async def fill(self, selector: str, value: str) -> None:
        """Type a value in place of what a field holds."""
        field = f"document.querySelector({json.dumps(selector)})"
        for _ in range(_TRIES):
            await self.run(f"{field}.focus(); {field}.select()")
            await self.call("Input.insertText", text=value)
            # On a busy machine no element may have the focus yet.
            if await self.run(f"{field}.value") == value:
                return
        raise AssertionError(f"{selector} does not take {value!r}")

    async def look(self, *, width: int, height: int, dark: bool = False) -> None:
        """Be a screen of this size."""
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])

    async def picture(self, path: Path) -> None:
        """Save what is seen."""
        answer = await self.call("Page.captureScreenshot", format="png")
        await asyncio.to_thread(path.write_bytes, base64.b64decode(answer["data"]))

    def hear(self, method: str, told: Any) -> None:
        """Note an event of the browser."""
        match method:
            case "Page.lifecycleEvent" if told["name"] == "load":
                self._loaded[told["loaderId"]].set()
                self._next_load.set()
            case "Page.javascriptDialogOpening":
                self.dialogs.append(told["message"])
                self._browser.say("Page.handleJavaScriptDialog", {"accept": False}, self._session)
            case "Runtime.exceptionThrown":
                self.complaints.append(str(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in {"error", "warning", "assert"}:
                self.complaints.append(str(told["args"]))
            case "Log.entryAdded" if told["entry"]["level"] in {"error", "warning"}:
                self.complaints.append(str(told["entry"]))


class Browser:
    """A Chromium that runs."""

    def __init__(self, reader: asyncio.StreamReader, write: Callable[[bytes], object]) -> None:
        self._reader = reader
        self._write = write
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._tabs: dict[str, Tab] = {}

    async def tab(self) -> Tab:
        """A new page."""
        target = await self.call("Target.createTarget", {"url": "about:blank"})
        named = {"targetId": target["targetId"], "flatten": True}
        session = (await self.call("Target.attachToTarget", named))["sessionId"]
        tab = self._tabs[session] = Tab(self, session)
        for domain in ("Page", "Runtime", "Log"):
            await tab.call(f"{domain}.enable")
        await tab.call("Page.setLifecycleEventsEnabled", enabled=True)
        return tab

    async def call(self, method: str, parameters: object, *, session: str | None = None) -> Any:
        """The answer to one command."""
        number = self.say(method, parameters, session)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(_ANSWER_S):
            told = await answer
        assert "error" not in told, (method, told)
        return told["result"]

    def say(self, method: str, parameters: object, session: str | None) -> int:
        """Send one command; its number."""
        number = next(self._numbers)
        command = {"id": number, "method": method, "params": parameters}
        if session is not None:
            command["sessionId"] = session
        self._write(json.dumps(command).encode() + b"\0")
        return number

    async def listen(self) -> None:
        """Hand out answers and news until the pipe closes."""
        while True:
            try:
                told = json.loads((await self._reader.readuntil(b"\0"))[:-1])
            except asyncio.IncompleteReadError:
                return
            if "id" not in told:
                if tab := self._tabs.get(told.get("sessionId", "")):
                    tab.hear(told["method"], told["params"])
            elif answer := self._answers.pop(told["id"], None):
                answer.set_result(told)


class _Pipes(NamedTuple):
    """Chromium, and the ends of its pipes in this process."""

    process: subprocess.Popen[bytes]
    answers: int
    commands: int


def _start(folder: Path) -> _Pipes:
    argv = [find_chromium(), *_QUIET, f"--user-data-dir={folder}"]
    if os.geteuid() == 0:
        argv.append("--no-sandbox")
    commands, to_chromium = os.pipe()
    from_chromium, answers = os.pipe()
    tie = die_with_parent(signal.SIGKILL)

    def place_pipes() -> None:
        os.dup2(os.dup(commands), _READS)
        os.dup2(answers, _WRITES)
        tie()

    with (folder / "chromium.log").open("wb") as log:
        process = subprocess.Popen(
            argv,
            stdout=log,
            stderr=log,
            pass_fds=(_READS, _WRITES),
            preexec_fn=place_pipes,  # noqa: PLW1509  no thread holds a lock
        )
    os.close(commands)
    os.close(answers)
    return _Pipes(process, from_chromium, to_chromium)


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Browser]:
    """A browser with a profile of its own, for the length of the block."""
    pipes = _start(folder)
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(_LONGEST)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipes.answers, "rb", 0)
    )
    try:
        with os.fdopen(pipes.commands, "wb", 0) as writing:
            browser = Browser(reader, writing.write)
            async with beside(browser.listen()):
                yield browser
    finally:
        pipes.process.kill()
        pipes.process.wait()
        transport.close()
