"""Servers that all workers of a run share: the process that has the workers starts them on demand.

Tests that kill or freeze a server have one of their own, see
:mod:`support.session.own`.
"""

from __future__ import annotations

import signal
from contextlib import ExitStack
from multiprocessing.connection import Client, Listener
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import NoReturn, cast

import pytest

from crawlstream.errors import SetupError
from crawlstream_chaos.processes import RunningServer
from crawlstream_cli.local.servers import LocalServer
from support import servers

_KINDS = {"kafka": servers.kafka, "zookeeper": servers.zookeeper}
_KEEPER = pytest.StashKey["Keeper"]()
_LISTENING = pytest.StashKey[str]()
_ADDRESS = "shared_servers"
_END = "end"


class SharedServer(RunningServer):
    """A server that other tests use at the same time."""

    def start(self) -> NoReturn:
        """Refuse."""
        raise AssertionError(f"others use this {self.server.name} as well: have one of your own")

    def signal(self, how: signal.Signals) -> NoReturn:
        """Refuse."""
        self.start()

    def kill(self) -> NoReturn:
        """Refuse."""
        self.start()


class Keeper:
    """Starts each server once, and ends them all."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._kept: dict[str, LocalServer] = {}

    def keep(self, kind: str) -> LocalServer:
        """Start the server of a kind unless it runs; SetupError."""
        if kind not in self._kept:
            folder = self._stack.enter_context(TemporaryDirectory(prefix="crawlstream-"))
            self._kept[kind] = self._stack.enter_context(_KINDS[kind](Path(folder))).server
        return self._kept[kind]

    def listen(self) -> str:
        """Answer the workers from now on; the address for them."""
        listener = Listener(family="AF_UNIX")
        # A server ends with the thread that has started it: this one lives until all are to end.
        thread = Thread(target=self._answer, args=[listener], daemon=True)
        thread.start()
        address = cast("str", listener.address)
        self._stack.callback(listener.close)
        self._stack.callback(thread.join)
        self._stack.callback(_ask, address, _END)
        return address

    def _answer(self, listener: Listener) -> None:
        kind = ""
        while kind != _END:
            with listener.accept() as worker:
                kind = worker.recv()
                worker.send(None if kind == _END else self._kept_or_why_not(kind))

    def _kept_or_why_not(self, kind: str) -> LocalServer | SetupError:
        try:
            return self.keep(kind)
        except SetupError as error:
            return error

    def close(self) -> None:
        """End all servers."""
        self._stack.close()


def _ask(address: str, kind: str) -> object:
    with Client(address) as keeper:
        keeper.send(kind)
        return keeper.recv()


def _keeper(config: pytest.Config) -> Keeper:
    return config.stash.setdefault(_KEEPER, Keeper())


def tell_worker(config: pytest.Config, worker_input: dict[str, object]) -> None:
    """Let a worker know where to ask."""
    if _LISTENING not in config.stash:
        config.stash[_LISTENING] = _keeper(config).listen()
    worker_input[_ADDRESS] = config.stash[_LISTENING]


def shared(kind: str, config: pytest.Config) -> SharedServer:
    """Return the server of a kind that all workers use; SetupError."""
    worker_input = getattr(config, "workerinput", None)
    if worker_input is None:
        return SharedServer(_keeper(config).keep(kind))
    found = _ask(worker_input[_ADDRESS], kind)
    if isinstance(found, SetupError):
        raise found
    return SharedServer(cast("LocalServer", found))


def end_all(config: pytest.Config) -> None:
    """End all servers that this process has started."""
    _keeper(config).close()
