"""The gate: what it relies on in Twisted and Scrapy, tried out rather than believed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROBE = """
import asyncio, socket, sys
import uvloop
loop = uvloop.new_event_loop() if sys.argv[1] == "uvloop" else asyncio.new_event_loop()
asyncio.set_event_loop(loop)
from twisted.internet import asyncioreactor
asyncioreactor.install(loop)
from twisted.internet import endpoints, protocol, reactor
from crawling.engine.download_handler import _after_pending_writes

listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
early, late = [], []

class Writer(protocol.Protocol):
    def connectionMade(self):
        self.peer, _ = listener.accept()
        self.peer.setblocking(False)
        self.write(100)

    def write(self, left):
        self.transport.write(b"GET / HTTP/1.1")
        early.append(self.arrived())
        _after_pending_writes(self.look, left)

    def look(self, left):
        late.append(self.arrived())
        if left:
            reactor.callLater(0.001, self.write, left - 1)
        else:
            reactor.stop()

    def arrived(self):
        try:
            return len(self.peer.recv(100))
        except BlockingIOError:
            return 0

port = listener.getsockname()[1]
endpoints.TCP4ClientEndpoint(reactor, "127.0.0.1", port).connect(
    protocol.Factory.forProtocol(Writer)
)
reactor.run()
assert set(early) == {0}, "Twisted writes at once now: report departures directly"
assert set(late) == {14}, late
"""


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_departure_is_reported_after_the_bytes_have_left(loop: str) -> None:
    """Two rounds of the loop after a write, and not before, its bytes are on the wire."""
    subprocess.run([sys.executable, "-c", PROBE, loop], check=True, timeout=60)


def test_scrapys_handler_still_keeps_its_pool_where_the_gate_stands() -> None:
    """The private names that the gate needs, and what Twisted's pool must look like."""
    script = """
from twisted.internet import asyncioreactor
import asyncio
asyncioreactor.install(asyncio.new_event_loop())
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.utils.test import get_crawler
from twisted.web.client import HTTPConnectionPool
pool = HTTP11DownloadHandler(get_crawler())._pool
assert type(pool) is HTTPConnectionPool
assert pool.persistent and pool.retryAutomatically
assert callable(pool.getConnection) and callable(pool.closeCachedConnections)
from twisted.web import _newclient
assert _newclient.HTTP11ClientProtocol._parser is None
from twisted.internet.testing import StringTransport
parser = _newclient.HTTPClientParser(None, print)
parser.makeConnection(StringTransport())
assert parser.state == _newclient.STATUS
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


LARGE_BODIES = """
import asyncio, sys
from twisted.internet import asyncioreactor
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
asyncioreactor.install(loop)
from scrapy import Request
from scrapy.core.downloader.handlers.http11 import HTTP11DownloadHandler
from scrapy.utils.test import get_crawler
from twisted.internet import reactor
from crawling.engine.download_handler import Download, GatedHandler, _Gate
from crawling.failures import reason_of
from crawling.net.connections import KeptConnections
from crawling.page.scrapy_request import PAGE
from crawling.response.codings import Undecoded
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.visitor import Visitor

BODY = "x" * (2 << 20)

def large(status, length):
    head = f"HTTP/1.1 {status} Any\\r\\nLocation: /there\\r\\nConnection: close\\r\\n{length}\\r\\n"
    return Answer(raw=(head + BODY).encode())

async def end_of(handler, page):
    handler._leases.set_out(page, page.lease.entry.url)
    request = Request(page.lease.entry.url, meta={PAGE: page, "download_maxsize": 1 << 20})
    try:
        response = await handler._in_time(request, Download(page, request.url, must_prove=False))
    except Exception as error:
        return reason_of(error)
    return response.status, type(response) is Undecoded, response.headers.get("Location")

async def run():
    visitor = Visitor()
    handler = GatedHandler.__new__(GatedHandler)
    HTTP11DownloadHandler.__init__(handler, get_crawler())
    handler._timeout_s, handler._leases = 9, visitor.leases
    kept = KeptConnections(reactor, handler._pool, 8)
    handler._pool = _Gate(kept, visitor.resolver, visitor.leases)
    named = "Content-Length: 5000000000\\r\\n"
    kinds = [(status, length) for status in (200, 301, 503) for length in ("", named)]
    pages = {f"/{status}/{len(length)}": large(status, length) for status, length in kinds}
    with serving(pages | {"/small": Answer(b"x")}) as site:
        await visitor.resolver.resolve("127.0.0.1", site.port)
        # The first request has to wait for imports, too, and may leave too late.
        await end_of(handler, visitor.page(site.url("/small")))
        assert await end_of(handler, visitor.page(site.url("/small"))) == (200, False, None)
        for path in pages:
            status = int(path[1:4])
            expected = "too_large" if status == 200 else (status, True, b"/there")
            found = await end_of(handler, visitor.page(site.url(path)))
            assert found == expected, (path, found)

loop.run_until_complete(run())
"""


def test_in_the_engine_too_a_status_counts_before_a_body_that_is_too_large() -> None:
    """Applies a status before a body that is too large, with or without a length."""
    path = os.pathsep.join(sys.path)
    subprocess.run(
        [sys.executable, "-c", LARGE_BODIES],
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )
