"""XML-RPC over a unix socket: how supervisord is spoken to."""

from __future__ import annotations

import http.client
import socket
from pathlib import Path
from typing import Any
from xmlrpc.client import ServerProxy, Transport

_TIMEOUT_S = 10.0


def server_at(path: Path) -> ServerProxy:
    """Return a proxy whose calls raise OSError if there is no answer in time."""
    return ServerProxy("http://localhost", transport=_UnixTransport(path))


class _UnixTransport(Transport):
    """Opens one connection a call; calls are few, and far between."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = _UnixConnection(self._path)
        self._connection = host, connection
        return connection

    def request(self, *arguments: Any, **named: Any) -> Any:
        try:
            return super().request(*arguments, **named)
        finally:
            self.close()


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(_TIMEOUT_S)
        self.sock.connect(str(self._path))
