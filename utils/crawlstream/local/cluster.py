"""The one-machine cluster: Redis, ZooKeeper, Kafka, the monitors and the crawlers in one home.

Its life: ``start`` checks everything that could be in the way, renders the servers'
configuration, starts supervisord and returns when every process says that it is ready; any
failure on the way stops all of it again. ``stop`` returns when nothing runs any more.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from crawlstream.boot.settings import load_settings
from crawlstream.errors import SetupError
from crawlstream.local import servers
from crawlstream.local.home import Home, default_home, find_jars
from crawlstream.local.layout import Layout
from crawlstream.local.ports import Ports
from crawlstream.local.readiness import Progress, Readiness
from crawlstream.local.supervisor import ProcessInfo, Supervisor


class LocalCluster:
    """A cluster in a home of its own.

    ``ports`` default to what CRAWLSTREAM_*_PORT say, ``env`` to this process' environment; it is
    complete, not added to it. All calls block: from asyncio, ``await asyncio.to_thread(...)``.
    """

    def __init__(
        self,
        home: Path | None = None,
        *,
        ports: Ports | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        given = dict(os.environ if env is None else env)
        self.home = Home(home.resolve()) if home else default_home()
        self._layout = Layout(home=self.home, ports=ports or Ports.given(given), given=given)
        self._supervisor = Supervisor(self.home)

    def environment(self) -> dict[str, str]:
        """The variables of its processes; ``load_settings(**environment())`` fits its clients."""
        return self._layout.environment()

    @property
    def addresses(self) -> Mapping[str, str]:
        """Only those variables that lead a client to it."""
        return self._layout.addresses()

    @property
    def told(self) -> Mapping[str, str]:
        """What commands that come later are told: the addresses, and what lets them in."""
        return {**self._layout.addresses(), **self._layout.secrets()}

    def start(
        self,
        *,
        workers: int = 1,
        wanderers: int = 0,
        progress: Progress = lambda _states: None,
        tied: bool = False,
    ) -> None:
        """Start everything and return when it is ready.

        ``tied``: it stops when the calling thread ends, whatever ends it. SetupError and
        ConfigError say what is in the way; nothing runs then.
        """
        self._layout = replace(self._layout, workers=workers, wanderers=wanderers)
        self.home.prepare()
        with self._alone():
            self._supervisor.clear_up()
            self._layout.check()
            if "redis" in self._layout.local:
                self.home.ensure_redis_password()
            self._layout.check_access(load_settings(**self.environment()))
            self._render()
            try:
                self._write_down()
                self._supervisor.start(self.environment(), tied=tied)
                Readiness(self._layout, self._supervisor, progress).wait()
            except BaseException:
                self.stop()
                raise

    def stop(self) -> int:
        """Stop everything; answers how many processes supervisord had left behind."""
        left = self._supervisor.stop()
        self.home.clear_up()
        _note(self.home).unlink(missing_ok=True)
        return left

    @property
    def is_running(self) -> bool:
        """Whether its supervisord answers, be it that it is ending all that it runs."""
        return self._supervisor.pid() is not None

    @property
    def is_stopping(self) -> bool:
        """Whether it is being stopped: crawlers finish their pages, servers end last."""
        return self._supervisor.is_stopping

    def processes(self) -> Sequence[ProcessInfo]:
        """What runs now, as supervisor sees it."""
        return self._supervisor.processes()

    def conditions(self, processes: Sequence[ProcessInfo]) -> Mapping[str, str]:
        """What each that runs says of itself, by name: see `probes.condition`."""
        running = {process.name: process for process in processes if process.pid is not None}
        if not running:
            return {}
        with ThreadPoolExecutor(len(running)) as pool:
            told = pool.map(self._condition, running.values())
            return dict(zip(running, told, strict=True))

    def _condition(self, process: ProcessInfo) -> str:
        return self._layout.condition_of(process.kind, process.name)

    def leftovers(self) -> int:
        """How many processes of this home run, supervisord's or not."""
        return len(self._supervisor.leftovers())

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the home's lock; SetupError when a cluster runs, starts or stops in it."""
        with (self.home.run / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise SetupError(
                    f"another command is starting a cluster in {self.home.path}: wait until it"
                    " is ready"
                ) from None
            if self._supervisor.is_stopping:
                raise SetupError(
                    f"the cluster in {self.home.path} is being stopped: wait for its end with"
                    " ./crawlstream down"
                )
            if (pid := self._supervisor.pid()) is not None:
                raise SetupError(
                    f"a cluster is already running in {self.home.path} (pid {pid}): stop it with"
                    " ./crawlstream down, or set CRAWLSTREAM_HOME to another directory"
                )
            yield

    def _render(self) -> None:
        """Write the configuration of the servers that run here."""
        folder, ports, local = self.home.path, self._layout.ports, self._layout.local
        if "redis" in local:
            servers.redis(folder, port=ports.redis, password=self._layout.redis_password)
        if "zookeeper" in local:
            servers.zookeeper(folder, port=ports.zookeeper, jars=find_jars(self.home))
        if "kafka" in local:
            servers.format_kafka(servers.kafka(folder, port=ports.kafka, jars=find_jars(self.home)))

    def _write_down(self) -> None:
        """Leave a note for the commands that come later, from whatever terminal."""
        note = _note(self.home)
        note.touch(mode=0o600)
        note.chmod(0o600)
        note.write_text(json.dumps(self.told))


def adopt_running_cluster() -> None:
    """Let the clients in this process find the cluster that runs in the home.

    What the environment names already is left alone; the password of one Redis is never shown to
    another.
    """
    try:
        told: dict[str, str] = json.loads(_note(default_home()).read_text())
    except (OSError, ValueError):
        told = dict(LocalCluster().told) if _names_a_port() else {}
    place = ("REDIS_HOST", "REDIS_PORT")
    if any(os.environ.get(name, told.get(name)) != told.get(name) for name in place):
        told.pop("REDIS_PASSWORD", None)
    for name, value in told.items():
        os.environ.setdefault(name, value)


def _names_a_port() -> bool:
    return any(f"CRAWLSTREAM_{name.upper()}_PORT" in os.environ for name in Ports.__slots__)


def _note(home: Home) -> Path:
    return home.run / "cluster.json"
