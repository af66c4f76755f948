"""The folder in which a local cluster lives, and where on this machine its jars are.

``conf/`` rendered configuration, ``data/`` the servers' data, ``logs/`` one file a process,
``jars/`` Kafka and ZooKeeper, ``results/`` what crawls have brought, ``run/`` pids and sockets.

All but the jars are for their owner alone: pages, cookies and passwords of clients are in them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from crawlstream.boot.local_note import home_path, repository
from crawlstream.errors import SetupError

_NEEDED_BYTES = 1 << 30
_LONGEST_SOCKET = 90
"""Bytes; kernels take 103 at least, and supervisord binds a name that its pid has been added to."""


@dataclass(frozen=True, slots=True)
class Home:
    """A cluster's folder; ``path`` is absolute."""

    path: Path

    @property
    def conf(self) -> Path:
        """Configuration of the servers, rendered at each start."""
        return self.path / "conf"

    @property
    def data(self) -> Path:
        """Data of the servers."""
        return self.path / "data"

    @property
    def logs(self) -> Path:
        """Logs: one rotated file per process."""
        return self.path / "logs"

    @property
    def run(self) -> Path:
        """State of the cluster that runs now."""
        return self.path / "run"

    @property
    def results(self) -> Path:
        """Results of crawls."""
        return self.path / "results"

    @property
    def socket(self) -> Path:
        """Supervisor's socket: in the home, or in a short private folder when that is too long."""
        inside = self.run / "supervisor.sock"
        if len(os.fsencode(inside)) <= _LONGEST_SOCKET:
            return inside
        digest = hashlib.blake2b(os.fsencode(self.path), digest_size=8).hexdigest()
        base = os.environ.get("XDG_RUNTIME_DIR") or "/tmp"  # noqa: S108  made 0700 and checked
        return Path(base) / f"crawlstream-{os.getuid()}-{digest}" / "supervisor.sock"

    def prepare(self) -> None:
        """Make the folders; SetupError when the place is unfit or its disk nearly full."""
        _refuse_unfit(self.path)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            for folder in (self.conf, self.data, self.logs, self.run, self.results):
                _make_private(folder)
            _make_private(self.socket.parent)
        except OSError as error:
            raise SetupError(
                f"cannot create a cluster in {self.path} ({error.strerror}): set"
                " CRAWLSTREAM_HOME to a writable directory"
            ) from error
        _require_space(self.path)

    @property
    def redis_password(self) -> str | None:
        """Password of the Redis that is started here; None if there never was one."""
        try:
            return self.password_file.read_text(encoding="ascii") or None
        except OSError:
            return None

    def ensure_redis_password(self) -> None:
        """Make up a password for Redis, once."""
        if self.redis_password is None:
            new = self.password_file.with_suffix(".new")
            new.unlink(missing_ok=True)
            with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:  # noqa: PTH123  with its mode from the start
                file.write(secrets.token_urlsafe(32))
            new.rename(self.password_file)

    @property
    def password_file(self) -> Path:
        """File of that password."""
        return self.conf / "redis.password"

    def clear_up(self) -> None:
        """Leave nothing outside the folder once its supervisord has ended."""
        self.socket.unlink(missing_ok=True)
        if self.socket.parent != self.run:
            with contextlib.suppress(OSError):
                self.socket.parent.rmdir()


def checkout(name: str) -> Path:
    """A file or folder of the checkout; SetupError where only the package is installed."""
    path = repository() / name
    if not path.exists():
        raise SetupError(
            f"this command needs {name} of the source checkout, which the installed package does"
            " not have: run it as ./crawlstream in the checkout"
        )
    return path


def default_home() -> Home:
    """The home that the environment names."""
    return Home(home_path())


def find_jars(home: Home | None = None) -> Path:
    """Return the folder of Kafka's and ZooKeeper's jars; SetupError if they were not downloaded."""
    given = os.environ.get("CRAWLSTREAM_JARS")
    candidates = [Path(given)] if given else []
    homes = [*filter(None, [home]), default_home(), Home(repository() / ".crawlstream")]
    candidates += [each.path / "jars" for each in homes]
    for folder in candidates:
        if any(folder.glob("kafka_*.jar")):
            return folder.absolute()
    raise SetupError("Kafka and ZooKeeper are not installed yet: ./crawlstream up downloads them")


def _refuse_unfit(path: Path) -> None:
    """Kafka splits its log folders at commas, Java its class path at colons."""
    for mark in (",", ":", "\n"):
        if mark in str(path):
            raise SetupError(
                f"the path {str(path)!r} contains {mark!r}, which Kafka does not support: set"
                " CRAWLSTREAM_HOME to another directory"
            )


def _make_private(folder: Path) -> None:
    """Make a folder, or check that an existing one belongs to this user alone."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise SetupError(
            f"{folder} is owned by another user: set CRAWLSTREAM_HOME (or XDG_RUNTIME_DIR, if"
            " the directory is in it) to a directory of your own"
        )
    folder.chmod(0o700)


def _require_space(path: Path) -> None:
    free = shutil.disk_usage(path).free
    if free < _NEEDED_BYTES:
        raise SetupError(
            f"{path} has {free // (1 << 20)} MiB of free disk space, but a cluster needs 1024:"
            " free some space or set CRAWLSTREAM_HOME to another disk"
        )
    with tempfile.TemporaryFile(dir=path):
        """Room is of no use in a folder that cannot be written."""
