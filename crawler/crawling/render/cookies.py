"""The cookies of a crawl, as a browser keeps them: for its own site, and for one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from crawling.net.address_guard import literal
from crawling.page.page import Page
from crawling.render.cdp import CommandFailed, Pipe

_SECURE = "https://"


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


async def cookies_set(
    pipe: Pipe, context: str, given: Sequence[Mapping[str, object]]
) -> list[tuple[str, str]]:
    """Set-Cookie headers, which a browser keeps to itself, by what it keeps of them."""
    told = await pipe.call("Storage.getCookies", browserContextId=context)
    now = {each["name"]: each["value"] for each in told["cookies"]}
    before = {str(each["name"]): each["value"] for each in given}
    new = [f"{name}={now[name]}" for name in now if before.get(name) != now[name]]
    gone = [f"{name}=; Max-Age=0" for name in before if name not in now]
    return [("Set-Cookie", line) for line in (*new, *gone)]
