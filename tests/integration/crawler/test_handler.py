"""The gate: what it relies on in Twisted and Scrapy, tried out rather than believed."""

from __future__ import annotations

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
