"""A page's way through a browser: from its request to its DOM.

The tab requests the document once. It stops a redirect at its answer, and a second document before
its request: both go through the frontier, like redirects of pages without a browser. All other
requests of the page are judged first. Frames of other sites and workers are targets of their own:
they start when their requests are held too, and never start if that is impossible.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from crawling.render.actions import Actor, OpenRequests
from crawling.render.cdp import BrowserGone, CommandFailed, Pipe, Told
from crawling.render.cookies import SetCookies, cookies_set, set_cookies
from crawling.render.document import Document, LoadStage, first_of
from crawling.render.judge import Decision, FurtherRequest
from crawling.render.screenshot import WINDOW, Camera
from crawling.render.stand_ins import STAND_INS
from crawling.render.visit import (
    BrowserVisit,
    RenderedPage,
    RenderFailed,
    has_body,
    is_page,
    with_headers,
)

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
_ALL = [{"urlPattern": "*"}, {"urlPattern": "*", "requestStage": "Response"}]
_HELD = frozenset({"iframe", "worker"})
"""Types of targets that may start once their requests are held. Requests of workers cannot be
held, so workers never start."""


@dataclass(eq=False)
class Tab:
    """A page in a context of its own."""

    pipe: Pipe
    visit: BrowserVisit
    camera: asyncio.Lock
    _session: str = ""
    _frame: str = ""
    _loader: str = ""
    """The browser's name for the document."""
    _is_asked: bool = False
    """True if the document was requested."""
    _sessions: set[str] = field(default_factory=set)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._head: asyncio.Future[Told] = loop.create_future()
        self._over: asyncio.Future[str] = loop.create_future()
        """URL that a script leads to, or the error of which the page died."""
        self._cookies = SetCookies()
        self._life = LoadStage()
        self._requests = OpenRequests()

    async def make(self, context: str) -> RenderedPage:
        """Fetch and render; GrantExpired, LoadFailed, RenderFailed, or the error of a download."""
        try:
            await self._open(context)
            return await self._made()
        except (BrowserGone, CommandFailed) as error:
            raise RenderFailed(str(error)) from error
        finally:
            for session in self._sessions:
                self.pipe.leave(session)
            for task in self._tasks:
                task.cancel()
            for future in (self._head, self._over):
                if not future.cancel() and not future.cancelled():
                    future.exception()

    async def _open(self, context: str) -> None:
        call = self.pipe.call
        if self.visit.cookies:
            await set_cookies(self.pipe, context, self.visit.cookies)
        made = await call("Target.createTarget", url="about:blank", browserContextId=context)
        self._frame = made["targetId"]
        attached = await call("Target.attachToTarget", targetId=self._frame, flatten=True)
        self._session = attached["sessionId"]
        self._listen(self._session)
        self._page = Document(self.pipe, self._session, self._frame, self.visit)
        say, session = self.pipe.send, self._session
        say("Inspector.enable", session)
        say("Page.enable", session)
        say("Page.setLifecycleEventsEnabled", session, enabled=True)
        if self.visit.options.has_window:
            say("Emulation.setDeviceMetricsOverride", session, **WINDOW)
        say("Network.setBypassServiceWorker", session, bypass=True)
        say("Network.enable", session, maxTotalBufferSize=0, maxResourceBufferSize=0)
        await self._hold(session)

    async def _hold(self, session: str) -> None:
        """Have the requests of a target wait; CommandFailed where it cannot."""
        say = self.pipe.send
        # The page's own process answers: until then a document could begin without the script.
        is_there = self.pipe.begin_call(
            "Page.addScriptToEvaluateOnNewDocument", session, source=STAND_INS
        )
        say("Security.setIgnoreCertificateErrors", session, ignore=not self.visit.must_prove)
        if self.visit.user_agent:
            agent = self.visit.user_agent
            say("Emulation.setUserAgentOverride", session, userAgent=agent)
        say("Target.setAutoAttach", session, **_ATTACH)
        await self.pipe.call("Fetch.enable", session, patterns=_ALL, handleAuthRequests=True)
        await is_there

    def _listen(self, session: str) -> None:
        self._sessions.add(session)
        self.pipe.listen(session, self._hear)

    # The document.

    async def _made(self) -> RenderedPage:
        head = await self._page.requested(self._head, self._over)
        self.visit.on_head()
        headers = await self._cookies.beside_headers(head)
        if not self.visit.options.actions:
            self.pipe.send("Network.disable", self._session)
        made = RenderedPage(head["responseStatusCode"], headers)
        named = {name.lower(): value for name, value in headers}
        if not (is_page(made.status, named) and self.visit.is_rendered(made.status, named)):
            if has_body(made.status):
                made.body = await self._page.raw(head["requestId"])
            return made
        made.sent = await self._page.begin(head)
        made.is_rendered = True
        moved_to = await self._prepared(made)
        if moved_to:
            to = (self.visit.url, moved_to)
            cookies = await cookies_set(self.pipe, self._session, to, self.visit.cookies)
            return RenderedPage(303, [("Location", moved_to), *cookies])
        made.body = await self._page.dom(self._over)
        if part := self.visit.options.screenshot:
            camera = Camera(self.pipe, self._session, self._page, self._loader)
            made.screenshot = await camera.take(part, self.camera)
        return made

    # The rendered page.

    async def _prepared(self, made: RenderedPage) -> str:
        """Wait until the page is ready, and act in it; return the URL that it leads to instead."""
        options, pipe, page = self.visit.options, self.pipe, self._page
        ready, moved_to = await self._here(
            self._life.until_ready(page, options), self.visit.ready_s
        )
        made.is_complete = bool(ready)
        if options.actions and not moved_to:
            actor = Actor(pipe, self._session, page, self._requests)
            made.actions, moved_to = await self._here(actor.perform(options.actions))
            made.is_complete &= not any("error" in each for each in made.actions or ())
        return moved_to

    async def _here(self, work: Awaitable[Any], within_s: float | None = None) -> tuple[Any, str]:
        """Return the result of work, None if it is late, and the URL that the page leads to."""
        working = asyncio.ensure_future(work)
        try:
            ends = (working, self._over, self.pipe.gone)
            done = await first_of(*ends, timeout=within_s)
            if self._over in done:
                return None, self._over.result()
            if self.pipe.is_gone:
                raise BrowserGone("the browser has ended")
            return working.result() if working in done else None, ""
        finally:
            working.cancel()

    # Events of the browser.

    def _hear(self, session: str, method: str, told: Told) -> None:
        if hear := _HEARD.get(method):
            hear(self, session, told)

    def _unveiled(self, session: str, told: Told) -> None:
        if session == self._session:
            self._cookies.receive(told["requestId"], told["statusCode"], told["headers"])

    def _navigates(self, session: str, told: Told) -> None:
        if session == self._session and told["frameId"] == self._frame and not self._is_asked:
            self._loader = told["loaderId"]

    def _dialog(self, session: str, told: Told) -> None:
        # A page that asks whether to leave it is left, to a request that is judged.
        leaves = told["type"] == "beforeunload"
        self.pipe.send("Page.handleJavaScriptDialog", session, accept=leaves)

    def _ended(self, _session: str, told: Told) -> None:
        self._requests.end(told["requestId"])

    def _detached(self, _session: str, told: Told) -> None:
        self.pipe.leave(told["sessionId"])

    def _died(self, session: str, _told: Told) -> None:
        if session == self._session:
            for future in (self._head, self._over):
                if not future.done():
                    future.set_exception(RenderFailed("the page crashed"))

    def _lived(self, _session: str, told: Told) -> None:
        if told["loaderId"] == self._loader:
            self._life.reached(told["name"])

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _attached(self, parent: str, told: Told) -> None:
        session, target = told["sessionId"], told["targetInfo"]
        if target["type"] not in _HELD:
            self.pipe.send("Target.closeTarget", targetId=target["targetId"])
            self.pipe.send("Target.detachFromTarget", parent, sessionId=session)
            return
        self._listen(session)
        self._spawn(self._start(session))

    async def _start(self, session: str) -> None:
        """Start a frame or worker once its requests are held; otherwise it never starts."""
        try:
            self.pipe.send("Page.enable", session)
            await self._hold(session)
        except (BrowserGone, CommandFailed):
            return
        self.pipe.send("Runtime.runIfWaitingForDebugger", session)

    def _challenged(self, session: str, told: Told) -> None:
        self.pipe.send(
            "Fetch.continueWithAuth",
            session,
            requestId=told["requestId"],
            authChallengeResponse=self.visit.login(told["authChallenge"]),
        )

    def _paused(self, session: str, told: Told) -> None:
        is_answered = "responseStatusCode" in told or "responseErrorReason" in told
        is_document = told["resourceType"] == "Document" and told["frameId"] == self._frame
        if is_document and is_answered:
            self._document_answered(told)
        elif is_document:
            self._document_asked(told)
        elif is_answered:
            if "responseStatusCode" in told:
                self.visit.on_answer(told["request"]["url"], told["responseStatusCode"])
            self.pipe.send("Fetch.continueRequest", session, requestId=told["requestId"])
        else:
            self._spawn(self._further(session, told))

    def _document_asked(self, told: Told) -> None:
        request, visit = told["request"], self.visit
        if self._is_asked:
            _refuse(self.pipe, self._session, told, "Aborted")
            may_move = request["method"] == "GET" and visit.may_move(request["url"])
            if may_move and not self._over.done():
                self._over.set_result(request["url"])
            self._requests.led_away |= not may_move and request["url"] != visit.url
            return
        self._is_asked = True
        headers = with_headers(request["headers"], {**visit.headers, **visit.signed(visit.url)})
        self.pipe.send(
            "Fetch.continueRequest", self._session, requestId=told["requestId"], headers=headers
        )

    def _document_answered(self, told: Told) -> None:
        if self._head.done():
            return
        if "responseErrorReason" in told:
            # Only the answer to the navigation has the precise error (a certificate, say).
            self.pipe.send("Fetch.continueRequest", self._session, requestId=told["requestId"])
        else:
            self._head.set_result(told)

    async def _further(self, session: str, told: Told) -> None:
        """Judge a further request of the page, then continue or refuse it."""
        asked = FurtherRequest.of(told)
        if session == self._session:
            self._requests.begin(told.get("networkId", ""))
        verdict = await self.visit.judge(asked)
        if not verdict.may_leave:
            _refuse(self.pipe, session, told)
            return
        more = self.visit.headers_for(asked) if verdict is Decision.SENT else {}
        named = {"headers": with_headers(asked.headers, more)} if more else {}
        self.pipe.send("Fetch.continueRequest", session, requestId=told["requestId"], **named)


def _refuse(pipe: Pipe, session: str, told: Told, reason: str = "BlockedByClient") -> None:
    """Make a request fail; ``Aborted`` leaves the current document as it is."""
    pipe.send("Fetch.failRequest", session, requestId=told["requestId"], errorReason=reason)


_HEARD: Mapping[str, Callable[[Tab, str, Told], None]] = {
    "Fetch.authRequired": Tab._challenged,  # noqa: SLF001  its own
    "Fetch.requestPaused": Tab._paused,  # noqa: SLF001
    "Inspector.targetCrashed": Tab._died,  # noqa: SLF001
    "Network.loadingFailed": Tab._ended,  # noqa: SLF001
    "Network.loadingFinished": Tab._ended,  # noqa: SLF001
    "Network.responseReceivedExtraInfo": Tab._unveiled,  # noqa: SLF001
    "Page.frameStartedNavigating": Tab._navigates,  # noqa: SLF001
    "Page.javascriptDialogOpening": Tab._dialog,  # noqa: SLF001
    "Page.lifecycleEvent": Tab._lived,  # noqa: SLF001
    "Target.attachedToTarget": Tab._attached,  # noqa: SLF001
    "Target.detachedFromTarget": Tab._detached,  # noqa: SLF001
}
"""Handlers of the browser's events."""
