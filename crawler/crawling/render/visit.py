"""Parameters of a page in a browser, and its result."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from crawling.failures import TransferFailed
from crawling.page.page import Screenshot
from crawling.render.judge import Decision, FurtherRequest

_NO_BODY = frozenset({204, 205})
_RENDERED = frozenset({"text/html", "application/xhtml+xml"})
_BROWSERS_OWN = frozenset({"accept-encoding", "cookie", "host", "referer"})
"""Headers that only the browser writes, by its cookies and the codings that it supports."""


class RenderFailed(TransferFailed):
    """The page, or the browser that made it, died."""

    def __init__(self, words: str) -> None:
        super().__init__("render_failed", words)


class LoadFailed(Exception):
    """The document did not load; ``code`` is the browser's error code."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """Options that define when a page is ready, what it may request, and what is done in it."""

    wait_for: str | None = None
    """CSS selector of an element; None: the page is ready when it is quiet."""
    wait_ms: int = 0
    """Milliseconds to wait after that."""
    types: tuple[str, ...] | None = None
    """Allowed types, from ``TYPES``; None: those that the operator allows."""
    auto: bool = False
    """True if only pages are rendered that need it."""
    screenshot: str | None = None
    """Part of the page: ``viewport``, ``full``, or ``element:`` and a CSS selector."""
    actions: tuple[Mapping[str, Any], ...] = ()
    """Actions in the page when it is ready, each with one of ``VERBS``."""

    @classmethod
    def of(cls, wish: Mapping[str, Any] | None) -> RenderOptions:
        """Return the options for the ``render`` of a profile."""
        values = dict(wish or {})
        for name in ("types", "actions"):
            if values.get(name) is not None:
                values[name] = tuple(values[name])
        return cls(**values)

    @property
    def has_window(self) -> bool:
        """Return whether the size of the window matters: it is seen, or acted in."""
        return bool(self.screenshot or self.actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserVisit:
    """Parameters of one page, and the callbacks that decide about it."""

    url: str
    headers: Mapping[str, str]
    """Headers of the document's request."""
    headers_for: Callable[[FurtherRequest], Mapping[str, str]]
    """Headers that a further request has besides the browser's own."""
    signed: Callable[[str], Mapping[str, str]]
    """Headers that sign the GET of a URL; none if requests are not signed."""
    cookies: Sequence[Mapping[str, object]]
    user_agent: str
    """User agent that replaces the browser's; "": the browser's own."""
    must_prove: bool
    """True if certificates must be valid."""
    options: RenderOptions
    user: str
    password: str
    """Password of ``user`` at the gateway."""
    first_s: float
    """Seconds until the document begins; ``ready_s``: from then until the page is ready."""
    ready_s: float
    most_bytes: int
    is_rendered: Callable[[int, Mapping[str, str]], bool]
    """True if a document with this status and these headers (lower case) is rendered."""
    may_move: Callable[[str], bool]
    """True if a script may lead to a URL."""
    on_head: Callable[[], None]
    """Callback for the time when the document's site has answered."""
    judge: Callable[[FurtherRequest], Awaitable[Decision]]
    on_answer: Callable[[str, int], None]
    """Callback with URL and status of each further request."""

    def login(self, challenge: Mapping[str, str]) -> Mapping[str, str]:
        """Return the answer to a challenge: credentials for the gateway, none for a site."""
        if challenge.get("source") != "Proxy":
            return {"response": "CancelAuth"}
        login = {"username": self.user, "password": self.password}
        return {"response": "ProvideCredentials", **login}


@dataclass(slots=True)
class RenderedPage:
    """Result of a page in a browser."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = b""
    is_rendered: bool = False
    is_complete: bool = True
    """True if the page was ready in time, and all its actions were done."""
    actions: Sequence[Mapping[str, object]] = ()
    """Effects of its actions, as its result has them."""
    screenshot: Screenshot | None = None
    """The screenshot; None: none was taken."""
    sent: bytes | None = None
    """Body of the document as it was sent, for automatic rendering."""


def is_page(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a browser would show it as a page."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_file = headers.get("content-disposition", "").strip().lower().startswith("attachment")
    return kind in _RENDERED and not is_file and has_body(status)


def has_body(status: int) -> bool:
    """Return whether there is a body to read; the body of a redirect is not needed."""
    return status not in _NO_BODY and not 300 <= status < 400


def with_headers(headers: Mapping[str, str], more: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the headers of a request with ``more`` added, except headers of the browser."""
    ours = {name.lower(): value for name, value in more.items()}
    kept = {name: value for name, value in headers.items() if name.lower() not in ours}
    told = {**kept, **{name: value for name, value in ours.items() if name not in _BROWSERS_OWN}}
    told |= {name: value for name, value in headers.items() if name.lower() in _BROWSERS_OWN}
    return [{"name": name, "value": value} for name, value in told.items()]
