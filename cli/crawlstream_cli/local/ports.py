"""Where a local cluster listens, and which ports of 127.0.0.1 are free."""

from __future__ import annotations

import errno
import fcntl
import os
import random
import socket
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import psutil

from crawlstream.errors import ConfigError
from crawlstream_cli.local.partitions import MOST_LOCAL

_RANGE = range(20_000, 32_000)
"""Below the range from which Linux takes the ports of outgoing connections."""

_METRICS_BLOCK = 40

OFFSETS = {"kafka-monitor": 0, "redis-monitor": 1, "rest": 2}
"""Places in the row of metrics ports, as supervisord.conf writes them."""
MOST_PIPELINES = 8
"""Pipeline processes of one local cluster."""
_BEFORE_PIPELINES = 30
"""``pipeline-1`` has the next place."""
OF_PIPELINES = range(_BEFORE_PIPELINES + 1, _BEFORE_PIPELINES + 1 + MOST_PIPELINES)
"""Their places."""

_FORMER = {"rest": "FLASK_PORT"}
"""Variables of Scrapy Cluster that mean the same, as docs/settings.md lists them."""


def offset_of_pipeline(name: str) -> int:
    """The place of ``pipeline-NUMBER`` in the row of metrics ports."""
    return _BEFORE_PIPELINES + int(name.rpartition("-")[2])


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one local cluster; CRAWLSTREAM_<NAME>_PORT sets each."""

    kafka: int = 9092
    """Its controller listens on the next one."""
    zookeeper: int = 2181
    redis: int = 6379
    """Port of the first partition; further partitions have the next ports."""
    rest: int = 5343
    metrics: int = 5400
    """The first of a row: kafka-monitor +0, redis-monitor, rest, crawlers +11…, pipelines +31…"""

    @classmethod
    def given(cls, environment: Mapping[str, str]) -> Ports:
        """Read the ports from variables; ConfigError names a variable with an invalid port."""
        chosen = {}
        for name in cls.__slots__:
            for variable in (f"CRAWLSTREAM_{name.upper()}_PORT", _FORMER.get(name, "")):
                if name not in chosen and (text := environment.get(variable)):
                    chosen[name] = _port(variable, text)
        return cls(**chosen)

    def variables(self) -> dict[str, str]:
        """The ports as the variables that `given` reads."""
        return {f"CRAWLSTREAM_{n.upper()}_PORT": str(getattr(self, n)) for n in self.__slots__}

    @classmethod
    def free(cls) -> Ports:
        """Return unused ports, for a cluster next to others."""
        first = free_block(6 + _METRICS_BLOCK + MOST_LOCAL)
        return cls(
            kafka=first,
            zookeeper=first + 2,
            redis=first + 6 + _METRICS_BLOCK,
            rest=first + 4,
            metrics=first + 6,
        )


def is_free(port: int) -> bool:
    """Return whether a server could listen on the port at 127.0.0.1, and none listens elsewhere.

    Closed connections of another address (TIME_WAIT) do not keep it from listening.
    """
    return _can_bind("127.0.0.1", port) and (_can_bind("", port) or not is_listened_on(port))


def taken(ports: Iterable[int]) -> list[int]:
    """Return the ports among ``ports`` that are in use."""
    return [port for port in ports if not is_free(port)]


def free_block(length: int) -> int:
    """The first of ``length`` consecutive free ports, reserved for as long as this process runs.

    No other process of this user is given one of them, even while their server is restarted.
    OSError: too few are free.
    """
    return _RESERVATIONS.make(length)


class _Reservations:
    """Ports that this process has chosen: each is a locked byte of a file, at the port's number.

    The kernel releases the locks of a process that ends, however it ends.
    """

    def __init__(self) -> None:
        self._turn = Lock()
        self._file: int | None = None
        self._ours: set[int] = set()
        # Not from the generator that tests seed.
        self._next = random.SystemRandom().choice(_RANGE)

    def make(self, length: int) -> int:
        """Reserve the next ``length`` consecutive free ports; the first of them."""
        with self._turn:
            for tried in range(2 * len(_RANGE)):
                if tried == len(_RANGE):
                    # No others are left: choose those of this process again whose server has ended.
                    self._release(range(_RANGE.start, _RANGE.stop + length))
                first = _RANGE[(self._next - _RANGE.start) % len(_RANGE)]
                block = range(first, first + length)
                if self._reserve(block):
                    self._next = block.stop
                    return first
                self._next = first + 1
        raise OSError(f"no {length} consecutive free ports from {_RANGE.start} to {_RANGE.stop}")

    def _reserve(self, block: range) -> bool:
        # A process can lock what it has locked.
        if not self._ours.isdisjoint(block) or not self._lock(block):
            return False
        if not all(map(is_free, block)):
            self._release(block)
            return False
        self._ours.update(block)
        return True

    def _lock(self, block: range) -> bool:
        try:
            fcntl.lockf(self._opened(), fcntl.LOCK_EX | fcntl.LOCK_NB, len(block), block.start)
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise
        return True

    def _release(self, block: range) -> None:
        fcntl.lockf(self._opened(), fcntl.LOCK_UN, len(block), block.start)
        self._ours.difference_update(block)

    def _opened(self) -> int:
        if self._file is None:
            path = Path(tempfile.gettempdir()) / f"crawlstream-ports-{os.getuid()}"
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file


_RESERVATIONS = _Reservations()


def _port(name: str, text: str) -> int:
    # The controller's and the metrics' ports follow the one that is named.
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65_000:
        raise ConfigError(f"{name}: {text!r} is not a port number from 1 to 65000")
    return int(text)


def is_listened_on(port: int) -> bool:
    """On any address of this machine; where that cannot be seen, it is taken to be so."""
    try:
        sockets = psutil.net_connections("tcp")
    except psutil.Error:
        return True
    return any(each.status == psutil.CONN_LISTEN and port in each.laddr[1:] for each in sockets)


def _can_bind(address: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # Connections of an earlier server that linger in TIME_WAIT do not keep a new one out.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError:
            return False
        return True
