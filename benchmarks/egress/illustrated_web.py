"""The synthetic web with requisites: pages that each name thirty files of their own.

Run as a program with a port, numbers of links and bytes of a page, and the bytes of the smallest
and the largest file. Six files of a page are on other hosts, which have no pages. All hosts have a
robots.txt. ``/whole`` returns how many pages' files were requested.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Sequence
from functools import lru_cache, partial

import uvloop
from lib.web import Site, address, beginning

HOSTS = 100
FILES, ELSEWHERE, OTHER_HOSTS = 30, 6, 4
_STYLES, _SCRIPTS = 2, 3
"""Numbers of files that are none of the images."""
_ROBOTS = b"User-agent: *\nDisallow: /private/\nDisallow: /*?session=\n"
_WORDS = (
    b"The harbour opens early and closes when the last boat has left its mooring for the night. "
)


def url(port: int, host: int) -> str:
    """Return the first page of a host."""
    return f"http://{address(host)}:{port}/p/0.html"


def kind_of(number: int) -> tuple[str, bytes, bytes]:
    """Return the ending, the media type and the markup of a file by its number on its page."""
    if number < _STYLES:
        return "css", b"text/css", b'<link rel="stylesheet" href="%b">'
    if number < _STYLES + _SCRIPTS:
        return "js", b"text/javascript", b'<script src="%b" defer></script>'
    return "jpg", b"image/jpeg", b'<p><img src="%b" width="320" height="200" alt="a picture"></p>'


def sizes(least: int, most: int) -> Sequence[int]:
    """Return the bytes of each file of a page: as many in each octave."""
    steps = [(number * 7 % FILES) / (FILES - 1) for number in range(FILES)]
    return [round(least * (most / least) ** step) for step in steps]


def files(least: int, most: int) -> Sequence[bytes]:
    """Return the response for each file of a page."""
    chance = random.Random(1)
    found = []
    for number, size in enumerate(sizes(least, most)):
        _, kind, _ = kind_of(number)
        text = b".a { color: #123456; margin: 0 auto } /* %b */\n" % _WORDS
        is_image = number >= _STYLES + _SCRIPTS
        body = chance.randbytes(size) if is_image else (text * (size // len(text) + 1))[:size]
        found.append(
            b"HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 30 Nov 2026 10:00:00 GMT\r\n"
            b"Content-Type: %b\r\nContent-Length: %d\r\nLast-Modified: Sun, 01 Nov 2026 10:00:00 "
            b'GMT\r\nETag: "65aa%04d-%x"\r\nCache-Control: max-age=86400\r\n\r\n%b'
            % (kind, size, number, size, body)
        )
    return found


class IllustratedSite(Site):
    """Answers every request on a connection."""

    requested = 0

    def __init__(self, port: int, links: int, size: int, found: Sequence[bytes]) -> None:
        """``found``: the responses for the files of any page."""
        super().__init__(port, links, size, _beginnings(port))
        self._files = found

    def _answer(self, head: bytes) -> bytes:
        path = head.split(b" ", 2)[1]
        if path.startswith(b"/f/"):
            IllustratedSite.requested += 1
            return self._files[int(path.rpartition(b"/")[2].partition(b".")[0])]
        if path == b"/robots.txt":
            return _response(b"text/plain", _ROBOTS)
        if path == b"/whole":
            return _response(b"text/plain", b"%d" % (IllustratedSite.requested // FILES))
        if path == b"/served":
            return super()._answer(head)
        Site.served += 1
        return _response(b"text/html; charset=utf-8", self._page(head, path))

    def _page(self, head: bytes, path: bytes) -> bytes:
        name = b"/f/%b/%b/" % (self._address, path.rpartition(b"/")[2].partition(b".")[0])
        parts = [_markup(name, number, self._port) for number in range(FILES)]
        styles, rest = parts[: _STYLES + _SCRIPTS], parts[_STYLES + _SCRIPTS :]
        links = self._links_of(head.split(b"\r\n", 1)[0])
        paragraphs = [b"<p>%b%b</p>\n" % (_WORDS, link) for link in links]
        body = b"<!DOCTYPE html><html><head><title>A page</title>%b</head><body>%b%b" % (
            b"".join(styles),
            b"\n".join(rest),
            b"".join(paragraphs),
        )
        left = max(self._size - len(body) - len(b"</body></html>"), 0)
        text = b"<p>%b</p>\n" % (_WORDS * 3)
        return body + text * (left // len(text)) + b"</body></html>"


def _markup(name: bytes, number: int, port: int) -> bytes:
    ending, _, markup = kind_of(number)
    file = b"%b%d.%b" % (name, number, ending.encode())
    if number >= FILES - ELSEWHERE:
        file = b"http://127.2.0.%d:%d%b" % (1 + number % OTHER_HOSTS, port, file)
    return markup % file


def _response(kind: bytes, body: bytes) -> bytes:
    return (
        b"HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b"
        % (kind, len(body), body)
    )


@lru_cache
def _beginnings(port: int) -> Sequence[bytes]:
    return [beginning(url(port, host)) for host in range(HOSTS)]


async def serve(port: int, links: int, size: int, least: int, most: int) -> None:
    """Serve until killed."""
    make = partial(IllustratedSite, port, links, size, files(least, most))
    every_host = "0.0.0.0"  # noqa: S104  addresses of 127.0.0.0/8
    loop = asyncio.get_running_loop()
    server = await loop.create_server(make, every_host, port, backlog=4096)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(serve(*map(int, sys.argv[1:])))
