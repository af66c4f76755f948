"""The first message of a client that wants TLS: read off the wire, and compared."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple

_HANDSHAKE, _CLIENT_HELLO, _GROUPS = 22, 1, 10


class Greeting(NamedTuple):
    """Features that distinguish TLS libraries, without values that are new in every greeting."""

    version: int
    ciphers: tuple[int, ...]
    extensions: tuple[int, ...]
    """Sorted: browsers shuffle them."""
    groups: tuple[int, ...]
    has_grease: bool
    """True: meaningless values are among the ciphers, as Chrome and Safari have them."""


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def take(self, count: int) -> bytes:
        taken, self.data = self.data[:count], self.data[count:]
        return taken

    def number(self, count: int = 2) -> int:
        return int.from_bytes(self.take(count))

    def rest(self, count: int) -> _Reader:
        return _Reader(self.take(self.number(count)))

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(len(self.data) // 2)]


def read_greeting(record: bytes) -> Greeting:
    """The ClientHello in a record of TLS."""
    reader = _Reader(record)
    assert reader.number(1) == _HANDSHAKE
    reader.take(4)
    assert reader.number(1) == _CLIENT_HELLO
    reader.take(3)
    version = reader.number()
    reader.take(32)
    reader.rest(1)
    ciphers = reader.rest(2).numbers()
    reader.rest(1)
    extensions, groups = list[int](), list[int]()
    inner = reader.rest(2)
    while inner.data:
        kind = inner.number()
        body = inner.rest(2)
        extensions.append(kind)
        if kind == _GROUPS:
            groups = body.rest(2).numbers()
    return Greeting(
        version,
        tuple(_meant(ciphers)),
        tuple(sorted(_meant(extensions))),
        tuple(_meant(groups)),
        has_grease=len(list(_meant(ciphers))) < len(ciphers),
    )


def _meant(values: list[int]) -> Iterator[int]:
    return (
        value for value in values if not (value & 0x0F0F == 0x0A0A and value >> 8 == value & 255)
    )


@dataclass(slots=True)
class Listener:
    """Receives greetings, and answers none."""

    port: int = 0
    heard: list[Greeting] = field(default_factory=list)


@contextmanager
def listening() -> Iterator[Listener]:
    """A listener for the length of the block."""
    listener = Listener()
    with socket.create_server(("127.0.0.1", 0)) as server:
        listener.port = server.getsockname()[1]

        def listen() -> None:
            with suppress(OSError):
                while True:
                    visitor, _ = server.accept()
                    with visitor:
                        listener.heard.append(read_greeting(_record(visitor)))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        try:
            yield listener
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def _record(visitor: socket.socket) -> bytes:
    record = b""
    while len(record) < 5 or len(record) < 5 + int.from_bytes(record[3:5]):
        data = visitor.recv(65536)
        if not data:
            break
        record += data
    return record
