"""What a page is asked with in a browser, and what comes of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from crawling.failures import TransferFailed
from crawling.render.judge import Asked, Verdict
from crawlstream.model.egress.render import RenderOptions

_NO_BODY = frozenset({204, 205})
_RENDERED = frozenset({"text/html", "application/xhtml+xml"})
_BROWSERS_OWN = frozenset({"accept-encoding", "cookie", "host", "referer"})
"""Headers that only the browser writes: by its cookies, by what it can unpack."""


class RenderFailed(TransferFailed):
    """The page, or the browser that made it, died."""

    def __init__(self, words: str) -> None:
        super().__init__("render_failed", words)


class LoadFailed(Exception):
    """The document did not come; ``code`` is the browser's word for why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """What a page is asked with, and whom it asks."""

    url: str
    headers: Mapping[str, str]
    """Of the document."""
    headers_for: Callable[[str], Mapping[str, str]]
    """Those that further requests to a URL have beside the browser's own."""
    cookies: Sequence[Mapping[str, object]]
    user_agent: str
    """Other than the browser's; "": the same."""
    must_prove: bool
    """True if certificates must hold."""
    options: RenderOptions
    user: str
    password: str
    """To the gateway."""
    first_s: float
    """Time until the document begins, and after that until the page is ready."""
    ready_s: float
    most_bytes: int
    is_rendered: Callable[[int, Mapping[str, str]], bool]
    """By status and headers (lower case), whether a document is for the browser."""
    may_move: Callable[[str], bool]
    """True if a script may lead to a URL."""
    on_head: Callable[[], None]
    """Is called when the document's site has answered."""
    judge: Callable[[Asked], Awaitable[Verdict]]
    on_answer: Callable[[str, int], None]
    """Is told of the status of each further request."""

    def login(self, challenge: Mapping[str, str]) -> Mapping[str, str]:
        """Only the gateway is told who asks; what a site wants to know stays unanswered."""
        if challenge.get("source") != "Proxy":
            return {"response": "CancelAuth"}
        login = {"username": self.user, "password": self.password}
        return {"response": "ProvideCredentials", **login}


@dataclass(slots=True)
class Made:
    """What came of it."""

    status: int
    headers: Sequence[tuple[str, str]]
    body: bytes = b""
    is_rendered: bool = False
    is_complete: bool = True
    """True if the page was ready in time."""


def is_page(status: int, headers: Mapping[str, str]) -> bool:
    """Return whether a browser would show it as a page."""
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    is_file = headers.get("content-disposition", "").strip().lower().startswith("attachment")
    return kind in _RENDERED and not is_file and has_body(status)


def has_body(status: int) -> bool:
    """Return whether anything is to be read behind the head; of a redirect nobody needs it."""
    return status not in _NO_BODY and not 300 <= status < 400


def with_headers(headers: Mapping[str, str], more: Mapping[str, str]) -> list[dict[str, str]]:
    """The headers of a request, some of them ours."""
    ours = {name.lower(): value for name, value in more.items()}
    kept = {name: value for name, value in headers.items() if name.lower() not in ours}
    told = {**kept, **{name: value for name, value in ours.items() if name not in _BROWSERS_OWN}}
    told |= {name: value for name, value in headers.items() if name.lower() in _BROWSERS_OWN}
    return [{"name": name, "value": value} for name, value in told.items()]
