"""Does a server answer? One question a kind, each over a plain socket within a second or so.

A port that accepts proves little: a frozen process keeps accepting. So each probe asks something
that only a working server can answer.
"""

from __future__ import annotations

import http.client
import json
import socket
import struct
from collections.abc import Callable

_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 7, -1)
"""A Kafka frame: length, ApiVersions, version 0, correlation id 7, no client id."""


def redis_answers(port: int, timeout_s: float = 1.0, password: str | None = None) -> bool:
    """PING is answered, so the data has been loaded."""
    if password is None:
        return _ask(port, b"PING\r\n", timeout_s).startswith(b"+PONG")
    secret = password.encode()
    let_in = b"*2\r\n$4\r\nAUTH\r\n$%d\r\n%s\r\n" % (len(secret), secret)
    return b"+PONG" in _ask(port, let_in + b"PING\r\n", timeout_s, answers=2)


def zookeeper_answers(port: int, timeout_s: float = 1.0) -> bool:
    """Return whether ZooKeeper serves requests: only then does ``srvr`` report a mode."""
    return b"\nMode: " in _ask(port, b"srvr", timeout_s)


def kafka_answers(port: int, timeout_s: float = 1.0) -> bool:
    """ApiVersions is answered without an error code."""
    answer = _ask(port, _API_VERSIONS, timeout_s)
    return len(answer) >= 10 and answer[4:10] == struct.pack(">ih", 7, 0)


PROBES: dict[str, Callable[[int], bool]] = {
    "redis": redis_answers,
    "zookeeper": zookeeper_answers,
    "kafka": kafka_answers,
}
"""The probe of each server, by its name: whether it can be used."""


def process_status(port: int, timeout_s: float = 2.0) -> str:
    """Return ``ready``, ``waiting for …`` or ``starting``, from a process's ``/health``."""
    status, said = _health(port, timeout_s)
    if status != 200:
        return "starting"
    waiting_for = said.get("waiting_for")
    return f"waiting for {waiting_for}" if waiting_for else "ready"


def condition(kind: str, port: int, redis_password: str | None = None) -> str:
    """Return the condition of any process: ``ready``, ``waiting for …`` or ``starting``."""
    if kind == "redis":
        return "ready" if redis_answers(port, password=redis_password) else "starting"
    if kind in PROBES:
        return "ready" if PROBES[kind](port) else "starting"
    return process_status(port)


def is_alive(kind: str, port: int) -> bool:
    """Return whether a process does anything at all, even if it cannot work yet.

    A Redis that loads its data, or a monitor that waits for Kafka, needs time and no restart.
    """
    if kind == "redis":
        return bool(_ask(port, b"PING\r\n", 2.0))
    if kind in PROBES:
        return PROBES[kind](port)
    return _health(port, 2.0)[0] == 200


def _health(port: int, timeout_s: float) -> tuple[int, dict[str, object]]:
    """Status (0: no answer) and body of one process' health page."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    try:
        connection.request("GET", "/health")
        response = connection.getresponse()
        return response.status, json.loads(response.read())
    except (OSError, ValueError, http.client.HTTPException):
        return 0, {}
    finally:
        connection.close()


def _ask(port: int, question: bytes, timeout_s: float, answers: int = 1) -> bytes:
    """The first bytes of the answer on 127.0.0.1; nothing when there is none in time.

    ``answers`` is how many lines to wait for, where there is more than one.
    """
    said = b""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(question)
            said = more = connection.recv(4096)
            while more and said.count(b"\n") < answers > 1:
                more = connection.recv(4096)
                said += more
    except OSError:
        return b""
    return said
