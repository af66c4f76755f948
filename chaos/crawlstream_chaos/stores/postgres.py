"""A PostgreSQL to be killed and frozen: on a free port, in a folder that is gone with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from crawlstream.errors import SetupError
from crawlstream_chaos.processes import Program
from crawlstream_cli.local.ports import free_block

_START_TIMEOUT_S = 240
"""Seconds to wait for the start, also on a busy machine."""
_SSL_REQUEST = bytes.fromhex("0000000804d2162f")
_OWNER = "postgres"
"""User that it runs as when this process is root, which it refuses."""


class RunningPostgres(Program):
    """A PostgreSQL that keeps its port and its data; everybody on this machine may connect."""

    def __init__(self, folder: Path) -> None:
        self.port = free_block(1)
        self._data = folder / "data"
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
            "max_connections": "60",
            "shared_buffers": "64MB",
            # It is killed, never its machine: what it has written is there, and it starts at once.
            "fsync": "off",
        }
        told = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        super().__init__(
            *_as_owner(),
            str(_program("postgres")),
            *("-D", str(self._data)),
            *told,
            env={**os.environ, "LC_ALL": "C"},
            log=folder / "postgres.log",
            folder=folder,
        )

    def start(self) -> None:
        """Start it and wait until it answers; SetupError."""
        if not self._data.exists():
            self._make()
        super().start()
        deadline = time.monotonic() + _START_TIMEOUT_S
        while not self._answers():
            if not self.is_running() or time.monotonic() > deadline:
                raise SetupError(f"PostgreSQL did not start:\n{self.logged()[-2000:]}")
            time.sleep(0.05)

    def signal(self, how: signal.Signals) -> None:
        """Send a signal to the server and to all that serves its clients."""
        for each in [*psutil.Process(self.pid).children(), psutil.Process(self.pid)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.send_signal(how)

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database, for its owner."""
        return f"postgresql://{_OWNER}@127.0.0.1:{self.port}/{database}"

    def make_database(self, name: str, encoding: str = "UTF8") -> str:
        """Create an empty database; its URL."""
        making = f"create database \"{name}\" encoding '{encoding}' template template0"
        command = ("psql", "-qX", self.url(), "-c", making)
        subprocess.run(command, check=True)
        return self.url(name)

    def _make(self) -> None:
        command = (*_as_owner(), str(_program("initdb")), "-D", str(self._data), "-U", _OWNER)
        made = subprocess.run(
            [*command, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C"],
            env={**os.environ, "LC_ALL": "C"},
            cwd=self._data.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        if made.returncode:
            raise SetupError(f"initdb failed: {made.stderr.strip()}")

    def _answers(self) -> bool:
        """Return whether it answers: a port that accepts connections proves little."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 1) as asked:
                asked.settimeout(1)
                asked.sendall(_SSL_REQUEST)
                return asked.recv(1) in {b"N", b"S"} and _has_begun(self.logged())
        except OSError:
            return False


@contextmanager
def postgres() -> Iterator[RunningPostgres]:
    """Run a PostgreSQL for the length of the block."""
    folder = Path(tempfile.mkdtemp(prefix="crawlstream-postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, _OWNER, _OWNER)
        server = RunningPostgres(folder)
        try:
            server.start()
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _has_begun(log: str) -> bool:
    """While it recovers it answers, and refuses everybody."""
    return log.rfind("ready to accept connections") > log.rfind("starting PostgreSQL")


def _as_owner() -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    as_whom = (f"--reuid={_OWNER}", f"--regid={_OWNER}", "--clear-groups")
    return ("setpriv", *as_whom, "--pdeathsig=KILL")


def _program(name: str) -> Path:
    """Debian has a folder for each version; SetupError."""
    found = [*sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)]
    if on_path := shutil.which(name):
        found.append(Path(on_path))
    if not found:
        raise SetupError(
            f"{name} is not installed: start the command as ./crawlstream in the source checkout,"
            " which checks for it"
        )
    return found[0]
