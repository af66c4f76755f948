"""A web of many shapes on 127.0.0.0/8: what the synthetic one leaves out, still without storage.

A quarter of a host's own links each are absolute, root-relative, relative and ``//host``; one link
in ten leads to another host, one in 25 has a fragment. Pages have titles and text; one in a hundred
is an error or a redirect. Every page is a function of its URL.
"""

from __future__ import annotations

import sys
from hashlib import shake_128
from struct import iter_unpack

import uvloop
from lib.web import HOSTS, PAGES_A_HOST, Site, address, serve

PAGES_A_FOLDER = 40
OTHER_SHARE, FRAGMENT_SHARE = 0.10, 0.04
NOT_FOUND, BROKEN, REDIRECTED = 0.003, 0.002, 0.005
_BYTE = 0x100
_TEXT = (
    "The harbour opens early and closes when the last boat has left its mooring for the night:"
    " rope, anchor, chart, compass, lantern, keel, rudder, tide, current, depth, signal, crew. "
)
_WORDS = _TEXT.split()


def url(port: int, host: int, page: int) -> str:
    """Return where a page is."""
    return f"http://{address(host)}:{port}{path(page)}"


def path(page: int) -> str:
    """Return where a page is on its host."""
    return f"/part-{page // PAGES_A_FOLDER}/page-{page}.html"


_PATHS = [path(page) for page in range(PAGES_A_HOST)]
_NUMBERS = {each.encode(): page for page, each in enumerate(_PATHS)}


class MixedSite(Site):
    """Answers every request on a connection."""

    def _answer(self, head: bytes) -> bytes:
        line = head.split(b"\r\n", 1)[0]
        page = _NUMBERS.get(line.split(b" ", 2)[1])
        if page is None:
            return super()._answer(head)
        Site.served += 1
        chance = shake_128(self._address + line).digest(4 + 8 * self._links)
        fate = int.from_bytes(chance[:4], "big") / 2**32
        if fate < NOT_FOUND:
            return _response(b"404 Not Found", b"<title>Nothing is here</title>")
        if fate < NOT_FOUND + BROKEN:
            return _response(b"500 Internal Server Error", b"<title>It broke</title>")
        if fate < NOT_FOUND + BROKEN + REDIRECTED:
            to = _PATHS[int.from_bytes(chance[4:6], "big") % PAGES_A_HOST].encode()
            return _response(b"302 Found", b"", b"Location: %b\r\n" % to)
        return _response(b"200 OK", self._page(page, chance[4:]))

    def _page(self, page: int, chance: bytes) -> bytes:
        title = f"Page {page} of {self._address.decode()}"
        parts = [f"<!DOCTYPE html><html><head><title>{title}</title></head><body><h1>{title}</h1>"]
        for shape, rare, host, number in iter_unpack("<2B2Hxx", chance):
            fragment = f"#part{rare}" if rare < FRAGMENT_SHARE * _BYTE else ""
            href = self._href(page, shape, host, number % PAGES_A_HOST)
            first = number % (len(_WORDS) - 4)
            text = " ".join(_WORDS[first : first + 1 + rare % 4])
            parts.append(f'<p>{_TEXT[:rare]}<a href="{href}{fragment}">{text}</a></p>\n')
        body = "".join(parts)
        fill = self._size - len(body) - len("<p></p></body></html>")
        repeated = _TEXT * (max(fill, 0) // len(_TEXT))
        return f"{body}<p>{repeated}</p></body></html>".encode()

    def _href(self, page: int, shape: int, host: int, number: int) -> str:
        """A link in one of its shapes; the last two bits of ``shape`` choose it."""
        place = f"{self._address.decode()}:{self._port}"
        if (shape >> 2) / 64 < OTHER_SHARE:
            scheme = "http:" if shape & 1 else ""
            return f"{scheme}//{address(host % HOSTS)}:{self._port}{_PATHS[number]}"
        kind = shape & 3
        if kind == 0:
            return f"http://{place}{_PATHS[number]}"
        if kind == 1:
            return f"//{place}{_PATHS[number]}"
        if kind == 2:
            return _PATHS[number]
        if number // PAGES_A_FOLDER == page // PAGES_A_FOLDER:
            return f"page-{number}.html"
        return f"..{_PATHS[number]}"


def _response(status: bytes, body: bytes, more: bytes = b"") -> bytes:
    return (
        b"HTTP/1.1 %b\r\nContent-Type: text/html; charset=utf-8\r\n%bContent-Length: %d\r\n\r\n%b"
        % (status, more, len(body), body)
    )


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:]), kind=MixedSite))
