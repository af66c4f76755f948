"""The cookies of a crawl, as a browser keeps them: for its own site, and for one page."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

from crawling.net.address_guard import literal
from crawling.page.page import Page
from crawling.render.cdp import CommandFailed, Pipe, Told

_NAME = "Set-Cookie"
_SECURE = "https://"
_TOLD_S = 1.0
"""The browser tells of them when it tells of the document's head, or a little later."""


def cookies_of(page: Page, url: str, header: str) -> Sequence[Mapping[str, object]]:
    """The cookies of a Cookie header.

    Those that the client has given are for the seed's own domain, those that a redirect has set for
    the host that set them.
    """
    scope = page.hold.profile.site or ""
    domain = scope.removeprefix(_SECURE)
    host = urlsplit(url).hostname or ""
    is_wide = bool(domain) and "." in domain and literal(domain) is None and host.endswith(domain)
    made = []
    for pair in header.split(";"):
        name, has_value, value = pair.strip().partition("=")
        if not has_value or not name:
            continue
        cookie: dict[str, object] = {"name": name, "value": value, "url": url, "path": "/"}
        if is_wide and name not in page.hold.entry.cookies:
            cookie["domain"] = domain
        if url.startswith(_SECURE):
            cookie["secure"] = True
        made.append(cookie)
    return made


async def set_cookies(pipe: Pipe, context: str, cookies: Sequence[Mapping[str, object]]) -> None:
    """Give a context its cookies; a browser may refuse some that servers take."""
    try:
        await pipe.call("Storage.setCookies", cookies=cookies, browserContextId=context)
    except CommandFailed:
        for cookie in cookies:
            pipe.say("Storage.setCookies", cookies=[cookie], browserContextId=context)


class SetCookies:
    """The Set-Cookie headers of a document, which the browser tells apart from all others."""

    def __init__(self) -> None:
        self._came: dict[int, asyncio.Event] = defaultdict(asyncio.Event)
        """By status: a gateway's challenge comes before the document."""
        self._lines: dict[int, Sequence[str]] = {}

    def heard(self, status: int, headers: Mapping[str, str]) -> None:
        """An answer's headers as they came; those of one name are divided by line feeds."""
        told = (value for name, value in headers.items() if name.lower() == _NAME.lower())
        self._lines.setdefault(status, [line for value in told for line in value.split("\n")])
        self._came[status].set()

    async def beside_headers(self, head: Told) -> list[tuple[str, str]]:
        """All headers of the document whose head it is; a browser may tell of no cookies at all."""
        status = head["responseStatusCode"]
        with suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_S):
                await self._came[status].wait()
        headers = [(each["name"], each["value"]) for each in head.get("responseHeaders", ())]
        others = (each for each in headers if each[0].lower() != _NAME.lower())
        return [*others, *((_NAME, line) for line in self._lines.get(status, ()))]


async def cookies_set(
    pipe: Pipe, context: str, given: Sequence[Mapping[str, object]]
) -> list[tuple[str, str]]:
    """What a page and its scripts have done to the cookies, as Set-Cookie headers."""
    told = await pipe.call("Storage.getCookies", browserContextId=context)
    now = {each["name"]: each["value"] for each in told["cookies"]}
    before = {str(each["name"]): each["value"] for each in given}
    new = [f"{name}={now[name]}" for name in now if before.get(name) != now[name]]
    gone = [f"{name}=; Max-Age=0" for name in before if name not in now]
    return [(_NAME, line) for line in (*new, *gone)]
