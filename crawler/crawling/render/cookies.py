"""The cookies of a crawl in a browser: for the crawl's own site, and for one page."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress

from crawling.net.address_guard import literal
from crawling.page.chain_cookies import sent_to
from crawling.page.page import Page
from crawling.render.cdp import CommandFailed, Pipe, Told
from crawlstream.model.credentials import may_follow
from crawlstream.model.url import host_of

_NAME = "Set-Cookie"
_SECURE = "https://"
_TOLD_S = 1.0
"""Seconds to wait: the browser reports cookies with the document's head or a little later."""


def cookies_of(page: Page, url: str, header: str) -> Sequence[Mapping[str, object]]:
    """Return the cookies of a Cookie header.

    Cookies of the client's request are for the seed's own domain. Cookies that a redirect has set
    are for the host that set them.
    """
    scope = page.lease.profile.site or ""
    domain = scope.removeprefix(_SECURE)
    is_part = f".{host_of(url)}".endswith(f".{domain}")
    is_wide = "." in domain and literal(domain) is None and is_part
    of_chain = {name for name, _value in sent_to(page.lease.entry.cookies, url)}
    made = []
    for pair in header.split(";"):
        name, has_value, value = pair.strip().partition("=")
        if not has_value or not name:
            continue
        cookie: dict[str, object] = {"name": name, "value": value, "url": url, "path": "/"}
        if is_wide and name not in of_chain:
            cookie["domain"] = domain
        if url.startswith(_SECURE):
            cookie["secure"] = True
        made.append(cookie)
    return made


async def set_cookies(pipe: Pipe, context: str, cookies: Sequence[Mapping[str, object]]) -> None:
    """Set the cookies of a context; a browser may refuse some that servers accept."""
    try:
        await pipe.call("Storage.setCookies", cookies=cookies, browserContextId=context)
    except CommandFailed:
        for cookie in cookies:
            pipe.send("Storage.setCookies", cookies=[cookie], browserContextId=context)


class SetCookies:
    """The Set-Cookie headers of a document, which the browser reports in a separate event."""

    def __init__(self) -> None:
        self._came: dict[tuple[str, int], asyncio.Event] = defaultdict(asyncio.Event)
        """Events by request and status: a gateway's challenge comes before the document."""
        self._lines: dict[tuple[str, int], Sequence[str]] = {}

    def receive(self, request: str, status: int, headers: Mapping[str, str]) -> None:
        """Take the raw headers of an answer; line feeds divide values with one name."""
        told = (value for name, value in headers.items() if name.lower() == _NAME.lower())
        lines = [line for value in told for line in value.split("\n")]
        self._lines.setdefault((request, status), lines)
        self._came[request, status].set()

    async def beside_headers(self, head: Told) -> list[tuple[str, str]]:
        """Return all headers of a document; the browser may never report its cookies."""
        answer = (head.get("networkId", ""), head["responseStatusCode"])
        with suppress(TimeoutError):
            async with asyncio.timeout(_TOLD_S):
                await self._came[answer].wait()
        headers = [(each["name"], each["value"]) for each in head.get("responseHeaders", ())]
        others = (each for each in headers if each[0].lower() != _NAME.lower())
        return [*others, *((_NAME, line) for line in self._lines.get(answer, ()))]


async def cookies_set(
    pipe: Pipe, session: str, way: tuple[str, str], given: Sequence[Mapping[str, object]]
) -> list[tuple[str, str]]:
    """Return a page's changes to the cookies that are sent to a URL, as Set-Cookie headers.

    ``way``: the page's URL, and the URL that it leads to. As with a redirect, no cookie goes to
    another host. Cookies that the browser would not send there (domain, path, encryption) are left
    out: sites of frames and scripts have set them, or they are for other pages.
    """
    url, target = way
    if not may_follow(target, url):
        return []
    told = await pipe.call("Network.getCookies", session, urls=[target])
    # With two cookies of one name, servers read the first, the one for the longer path. The browser
    # reports cookies in any order.
    by_path = sorted(told["cookies"], key=lambda each: len(each["path"]))
    now = {each["name"]: each["value"] for each in by_path}
    before = {str(each["name"]): each["value"] for each in given}
    new = [f"{name}={now[name]}; Path=/" for name in now if before.get(name) != now[name]]
    gone = [f"{name}=; Path=/; Max-Age=0" for name in before if name not in now]
    return [(_NAME, line) for line in (*new, *gone)]
