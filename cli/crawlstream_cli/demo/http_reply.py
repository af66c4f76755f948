"""Replies of the site to requests for pages, as bytes."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from mimetypes import guess_type

from crawlstream_cli.demo.access_log import FURTHER
from crawlstream_cli.demo.web import ContentKind, SitePage, Web

_SAYINGS = (
    "The {thing} has stood here longer than anyone can tell, and it asks for nothing.",
    "At low water the path to the {thing} is dry; at high water it is a rumour.",
    "Whoever counts the steps to the {thing} arrives at a different number each time.",
    "The keeper of the {thing} writes down every visit, and never who it was.",
    "On clear days the {thing} can be seen from the other shore, and from there, this page.",
    "Nobody remembers why the {thing} was built; everybody agrees that it was a good idea.",
)
_ODD_LINKS = (
    '<a href="mailto:keeper@example.com">Write to the keeper</a>',
    '<a href="ftp://ftp.example.com/charts">Charts by ftp</a>',
    '<a href="javascript:void(0)">Ring the bell</a>',
    '<a href="tel:+15550100">Call the ferry</a>',
    '<a href="data:text/plain,fog">Fog</a>',
)
"""Links that no crawl can follow; every page has one."""

_NOINDEX = "X-Robots-Tag: noindex", '<meta name="robots" content="noindex">'
_RESERVED = "Content-Usage: search=y, train-ai=n", '<meta name="tdm-reservation" content="1">'
"""Statements of pages, as headers and as elements of their heads."""

_LINKS = "0"
"""The number of the further request that brings the links of a page."""
_SCRIPT = """<script>
const ask = number => fetch("{further}" + number + location.pathname + location.search);
ask({links}).then(answer => answer.text()).then(links => {{
  document.body.insertAdjacentHTML("beforeend", links);
  for (let number = 1; number < {requests}; number++) ask(number);
}});
</script>"""

_MALFORMED_START = (
    "<html><head><title>{title}</title>\n<p>3 < 4 && 5 > <b><i>{title}</b></i></body>\n"
)
_MALFORMED_END = "<table><tr><td>loose <p>ends</div></span><a name=nowhere>\n<!-- never closed"


@dataclass(frozen=True, slots=True)
class HttpReply:
    """A rendered HTTP reply. ``head`` ends with the empty line."""

    status: int
    head: bytes
    body: bytes
    delay_s: float = 0.0
    first: HttpReply | None = None
    """Reply to the first request; later ones get this one."""
    charged: str = ""
    """Price of it; only requests that offer exactly this get it."""
    unpaid: HttpReply | None = None
    """Reply to other requests; None: it costs nothing."""


def reply(
    status: int, body: bytes, content_type: str, *extra: str, delay_s: float = 0.0
) -> HttpReply:
    """A reply with the headers that HTTP wants; ``extra`` are whole header lines."""
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(body)}",
        *extra,
    ]
    head = "\r\n".join(lines) + "\r\n\r\n"
    return HttpReply(status, head.encode("latin-1"), body, delay_s)


def not_found() -> HttpReply:
    """The reply for what the web does not have."""
    return reply(404, b"<h1>Nothing here</h1>", "text/html; charset=utf-8")


def render(web: Web, page: SitePage) -> HttpReply:
    """The reply for one page of the web."""
    match page.kind:
        case ContentKind.MISSING:
            return not_found()
        case ContentKind.IMAGE:
            return reply(200, _png(page.number), "image/png")
        case ContentKind.FILE:
            kind = guess_type(page.path)[0] or "application/octet-stream"
            return reply(200, _png(page.number), kind)
        case ContentKind.MOVED | ContentKind.MOVED_BACK:
            status = 302 if page.kind is ContentKind.MOVED else 301
            location = f"Location: {web.url(web.target(page))}"
            return reply(status, b"", "text/html; charset=utf-8", location)
        case _:
            return _html_reply(web, page)


def _html_reply(web: Web, page: SitePage) -> HttpReply:
    is_latin1 = page.kind is ContentKind.LATIN1
    text = _malformed(web, page) if page.kind is ContentKind.MALFORMED else _html(web, page)
    price = web.price(page)
    found = reply(
        200,
        text.encode("latin-1" if is_latin1 else "utf-8"),
        f"text/html; charset={'ISO-8859-1' if is_latin1 else 'utf-8'}",
        *(() if _by_meta(page) else _statement(web, page)[:1]),
        *([f"Crawler-Charged: {price}"] if price else ()),
        delay_s=web.slow_s if page.kind is ContentKind.SLOW else 0.0,
    )
    if price:
        html = "text/html; charset=utf-8"
        unpaid = reply(402, b"<h1>This page is sold</h1>", html, f"Crawler-Price: {price}")
        return replace(found, charged=price, unpaid=unpaid)
    if page.kind is not ContentKind.FLAKY:
        return found
    trouble = reply(500, b"<h1>Come back in a moment</h1>", "text/html; charset=utf-8")
    return HttpReply(found.status, found.head, found.body, first=trouble)


def _statement(web: Web, page: SitePage) -> Sequence[str]:
    """Return what a page says of itself, as a header and as an element; empty: nothing."""
    if web.says_noindex(page):
        return _NOINDEX
    return _RESERVED if web.reserves_itself(page) else ()


def _by_meta(page: SitePage) -> bool:
    """Return whether a page makes its statement in its head, and not in a header."""
    return page.number % 2 == 1 and page.kind is not ContentKind.MALFORMED


def _html(web: Web, page: SitePage) -> str:
    meta = "".join(_statement(web, page)[1:]) if _by_meta(page) else ""
    links = "\n".join(f"<li>{link}</li>" for link in _shown(web, page))
    return (
        "<!doctype html>\n"
        f'<html lang="en"><head><title>{page.title}</title>{meta}</head>\n'
        f"<body><h1>{page.title}</h1>\n"
        f"<p>{_prose(web, page)}</p>\n"
        f"<ul>\n{links}\n</ul>\n"
        "</body></html>\n"
    )


def _malformed(web: Web, page: SitePage) -> str:
    links = "\n<br>".join(link.replace("<a ", "<A ") for link in _shown(web, page))
    return _MALFORMED_START.format(title=page.title) + links + "\n" + _MALFORMED_END


def _prose(web: Web, page: SitePage) -> str:
    """A few sentences, repeated until the page has the size it shall have."""
    thing = page.title.lower()
    first, second = _SAYINGS[page.number % 6], _SAYINGS[(page.number // 6 + 1) % 6]
    prose = f"{first} {second} Café, naïveté, Übermut: « déjà vu »."
    prose = prose.format(thing=thing)
    return "\n".join([prose] * max(1, web.page_bytes // len(prose.encode()) + 1))


def answer_script(web: Web, page: SitePage, number: str) -> HttpReply:
    """The reply to one of the further requests of a page's script."""
    text = "\n".join(_links(web, page)) if number == _LINKS else f"{number} of {page.title}"
    return reply(200, text.encode(), "text/plain; charset=utf-8")


def _shown(web: Web, page: SitePage) -> Iterator[str]:
    """The links that stand on a page, or the script that makes them."""
    if not web.further:
        return _links(web, page)
    return iter([_SCRIPT.format(further=FURTHER, links=_LINKS, requests=web.further)])


def _links(web: Web, page: SitePage) -> Iterator[str]:
    """Each child once; then the ways back, in the variety that links have on real pages."""
    for number in page.children:
        yield _anchor(_href(web, page, web.pages[number]), web.pages[number])
    for number in page.asides:
        yield _anchor(_href(web, page, web.pages[number]) + "#top", web.pages[number])
    yield '<a href="#top">Up</a>'
    yield _ODD_LINKS[page.number % len(_ODD_LINKS)]


def _anchor(href: str, target: SitePage) -> str:
    return f'<a href="{href.replace("&", "&amp;")}">{target.title}</a>'


def _href(web: Web, page: SitePage, target: SitePage) -> str:
    """Relative on the same host; elsewhere absolute, now and then without the scheme."""
    if target.host != page.host:
        return web.url(target).removeprefix(f"{web.scheme}:" if target.number % 4 == 0 else "")
    folder = page.path[: page.path.rindex("/") + 1]
    if target.number % 2 and folder != "/" and target.path != "/":
        return f"..{target.path}"
    return target.path


def _png(number: int, side: int = 16) -> bytes:
    """A small valid picture; no two numbers look alike."""
    rows = b"".join(
        b"\0" + bytes((x * number ^ y * 7) & 255 for x in range(side)) for y in range(side)
    )
    header = struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)
    chunks = (b"IHDR", header), (b"IDAT", zlib.compress(rows, 9)), (b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(name, data) for name, data in chunks)


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
