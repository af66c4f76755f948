"""The synthetic web with hostile hosts in it, each of one kind of the tests' corpus.

Two programs serve it: one, told a port and how many of ten hosts are hostile, the healthy hosts;
the other, told the next port and ``hostile``, the hostile ones.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from functools import partial

import uvloop
from lib import web

from crawlstream_chaos.hostile_pages import corpus
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page

HOSTS = 160
KINDS = ("body", "bomb", "drip", "endless", "head", "huge", "refusal")
LARGEST = 16 << 20
"""Bytes of a page that a crawler takes by default: hostile pages are just below, or beyond."""


def url(port: int, host: int, page: int, hostile_in_ten: int) -> str:
    """Return where a page is."""
    turn, place = divmod(host, 10)
    if place >= hostile_in_ten:
        return web.url(port, host, page)
    kind = KINDS[(hostile_in_ten * turn + place) % len(KINDS)]
    return f"http://{web.address(host)}:{port + 1}/{kind}/{page}.html"


def front_pages(port: int, hostile_in_ten: int) -> list[str]:
    """The first page of each host, healthy or hostile."""
    return [url(port, host, 0, hostile_in_ten) for host in range(HOSTS)]


class HostileSite(CrawlerSite):
    """Each path has its own of the cases of its kind."""

    def page_at(self, host: str, path: str) -> Page:
        """Also ``/served``, as the healthy site has it."""
        if path == "/served":
            return Answer(str(len(self.visits)).encode())
        cases = [case for name, case in self.pages.items() if name[1:4] == path[1:4]]
        return cases[zlib.crc32(path.encode()) % len(cases)] if cases else Answer(status=404)


async def serve(port: int, hostile_in_ten: int) -> None:
    """Serve the healthy hosts until killed; their links lead to the hostile ones, too."""
    beginnings = [web.beginning(page) for page in front_pages(port, hostile_in_ten)]
    make = partial(web.Site, port, web.LINKS, web.PAGE_SIZE, beginnings)
    every_host = "0.0.0.0"  # noqa: S104  addresses of 127.0.0.0/8
    server = await asyncio.get_running_loop().create_server(make, every_host, port, backlog=4096)
    await server.serve_forever()


def serve_hostile(port: int) -> None:
    """Serve the hostile ones."""
    site = HostileSite({path: case.page for path, case in corpus(LARGEST).items()}, port)
    site.serve()


if __name__ == "__main__":
    if sys.argv[2] == "hostile":
        serve_hostile(int(sys.argv[1]))
    else:
        uvloop.run(serve(int(sys.argv[1]), int(sys.argv[2])))
