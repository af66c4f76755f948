"""The one-machine cluster: Redis, ZooKeeper, Kafka, the monitors and the crawlers in one home.

Its life: ``start`` checks everything that could be in the way, renders the servers'
configuration, starts supervisord and returns when every process says that it is ready; any
failure on the way stops all of it again. ``scale`` changes the crawlers of one that runs, ``stop``
returns when nothing runs any more.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from crawlstream.boot.local_note import note_for, note_in, write_note
from crawlstream.boot.settings import load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import SetupError
from crawlstream_cli.local import servers
from crawlstream_cli.local.crawlers import (
    BUNDLED,
    check_spiders,
    crawlers_of,
    scaled,
    targets_file,
)
from crawlstream_cli.local.home import Home, default_home, find_jars
from crawlstream_cli.local.layout import LocalLayout
from crawlstream_cli.local.partitions import choose_partitions, note_partitions, partitions_in
from crawlstream_cli.local.ports import Ports
from crawlstream_cli.local.readiness import NotReady, Progress, Readiness
from crawlstream_cli.local.supervisor import ProcessInfo, Supervisor

_DEFAULT: Mapping[str, int] = MappingProxyType({"link": 1})
_ONE_FILE = "\0"
"""Separator of variables that name one file: stands in no path."""
_PATHS = {
    "PYTHONPATH": os.pathsep,
    "CRAWLSTREAM_SIGNING_KEYS": ",",
    "CRAWLSTREAM_SIGNING_DIRECTORY": _ONE_FILE,
    **{
        f"CRAWLSTREAM_{server}_SSL_{kind}": _ONE_FILE
        for server in ("KAFKA", "REDIS", "ZOOKEEPER")
        for kind in ("CAFILE", "CERTFILE", "KEYFILE")
    },
}
"""Variables that name files or folders, and what stands between them."""


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
        given = _with_absolute_paths(os.environ if env is None else env)
        self.home = Home(home.resolve()) if home else default_home()
        self._layout = LocalLayout(
            home=self.home,
            ports=ports or Ports.given(given),
            given=given,
            pipelines=find_pipelines(self.home, given),
            partitions=partitions_in(self.home),
        )
        self._supervisor = Supervisor(self.home)

    def environment(self) -> dict[str, str]:
        """The variables of its processes; ``load_settings(**environment())`` fits its clients."""
        return self._layout.environment()

    @property
    def addresses(self) -> Mapping[str, str]:
        """Only those variables that lead a client to it."""
        return self._layout.addresses()

    @property
    def client_settings(self) -> Mapping[str, str]:
        """Settings for commands that run later: addresses, credentials, the User-Agent."""
        given, layout = self.environment(), self._layout
        agent = {name: given[name] for name in ("USER_AGENT",) if name in given}
        return {**layout.addresses(), **layout.names(), **layout.secrets(), **agent}

    def start(
        self,
        *,
        spiders: Mapping[str, int] = _DEFAULT,
        pipelines: int | None = None,
        partitions: int | None = None,
        progress: Progress = lambda _states: None,
        patience_s: float | None = None,
        tied: bool = False,
    ) -> None:
        """Start everything, with ``spiders`` crawlers of each spider, and return when it is ready.

        ``pipelines``: number of processes that run the pipelines, whose file must exist then; 0:
        none, whatever files there are; None: one, if there is a file.

        ``partitions``: number of partitions of the frontier, each on a Redis of its own; None: as
        many as the frontier in the home directory has, else one.

        A user's own spider is searched from the current directory. ``tied``: the cluster stops when
        the calling thread ends, for any reason. SetupError and ConfigError give the obstacle;
        nothing runs then. NotReady comes when nothing has advanced for ``patience_s`` (None:
        CRAWLSTREAM_START_TIMEOUT); the cluster goes on starting unless ``tied``.
        """
        self._check_spiders(spiders, progress)
        crawlers = scaled((), spiders, self._layout.given)
        if pipelines and self._layout.pipelines is None:
            raise SetupError(
                f"there is no pipelines.toml in this folder or in {self.home.path}: write one, or"
                " set CRAWLSTREAM_PIPELINES to its path"
            )
        file = None if pipelines == 0 else self._layout.pipelines
        self._layout = replace(
            self._layout, crawlers=crawlers, pipelines=file, pipeline_processes=pipelines or 1
        )
        self.home.prepare()
        with self._alone():
            self._supervisor.clear_up()
            self._choose_partitions(partitions)
            self._layout.check()
            if "redis" in self._layout.local:
                self.home.ensure_redis_password()
            self._layout.check_access(load_settings(**self.environment()))
            self._render()
            try:
                write_note(self.home.path, self.client_settings)
                self._supervisor.start(self.environment(), tied=tied)
                Readiness(self._layout, self._supervisor, progress, patience_s=patience_s).wait()
            except BaseException as error:
                if tied or not isinstance(error, NotReady):
                    self.stop()
                raise

    def scale(
        self, spiders: Mapping[str, int], *, progress: Progress = lambda _states: None
    ) -> None:
        """Run ``spiders`` crawlers of each named spider in the running cluster; the others stay.

        Surplus crawlers finish their pages first. SetupError and ConfigError give the obstacle;
        nothing has changed then. After NotReady the new crawlers go on starting, and surplus ones
        stay until another call.
        """
        with self._locked():
            former = crawlers_of(self.home)
            running = {each.spider for each in former}
            self._check_spiders([name for name in spiders if name not in running], progress)
            wanted = scaled(former, spiders, self._layout.given)
            new = [each for each in wanted if each not in former]
            gone = [each.name for each in former if each not in wanted]
            layout = replace(self._layout, crawlers=new)
            layout.check_crawlers()
            layout.note([*former, *new])
            try:
                self._supervisor.add(each.name for each in new)
                Readiness(layout, self._supervisor, progress).wait()
            except BaseException as error:
                if not isinstance(error, NotReady):
                    self._supervisor.remove([each.name for each in new])
                    layout.note(former)
                raise
            self._supervisor.remove(gone)
            layout.note(wanted)

    def stop(self) -> int:
        """Stop everything; answers how many processes supervisord had left behind."""
        left = self._supervisor.stop()
        self.home.clear_up()
        note_in(self.home.path).unlink(missing_ok=True)
        targets_file(self.home).unlink(missing_ok=True)
        return left

    @property
    def is_running(self) -> bool:
        """Return whether its supervisord answers, even while it stops all processes."""
        return self._supervisor.pid() is not None

    @property
    def is_stopping(self) -> bool:
        """Return whether it is being stopped: crawlers finish their pages, servers end last."""
        return self._supervisor.is_stopping

    @property
    def has_redis(self) -> bool:
        """Return whether its Redis is started here."""
        return "redis" in self._layout.local

    def redis_servers(self) -> Sequence[servers.LocalServer]:
        """Each Redis of it, configured as they are when it starts."""
        layout = self._layout
        return [
            servers.redis(
                self.home.path,
                port=port,
                password=layout.redis_password,
                name=name,
                partitions=layout.partitions,
            )
            for name, port in layout.redis.items()
        ]

    def processes(self) -> Sequence[ProcessInfo]:
        """Return the running processes, as supervisor sees them."""
        return self._supervisor.processes()

    def conditions(self, processes: Sequence[ProcessInfo]) -> Mapping[str, str]:
        """Return the condition of each running process under its name: see `probes.condition`."""
        running = {process.name: process for process in processes if process.pid is not None}
        if not running:
            return {}
        with ThreadPoolExecutor(len(running)) as pool:
            told = pool.map(self._condition, running.values())
            return dict(zip(running, told, strict=True))

    def _condition(self, process: ProcessInfo) -> str:
        return self._layout.condition_of(process.kind, process.name)

    def leftovers(self) -> int:
        """Return how many processes of this home run, supervisord's or not."""
        return len(self._supervisor.leftovers())

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold the home's lock; SetupError when another command starts or scales its cluster."""
        with (self.home.run / "lock").open("a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                by = f" (pid {pid})" if (pid := lock.read().strip()) else ""
                raise SetupError(
                    f"another command{by} is starting a cluster in {self.home.path}: wait until"
                    f" it is ready; `{COMMAND} status` shows how far it is"
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            yield

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Hold the home's lock; SetupError when a cluster runs, starts or stops in it."""
        with self._locked():
            if self._supervisor.is_stopping:
                raise SetupError(
                    f"the cluster in {self.home.path} is being stopped: wait for its end with"
                    f" {COMMAND} down"
                )
            if (pid := self._supervisor.pid()) is not None:
                raise SetupError(
                    f"a cluster is already running in {self.home.path} (pid {pid}): stop it with"
                    f" {COMMAND} down, change its crawlers with {COMMAND} up --spider"
                    f" NAME=N, run pipelines beside it with {COMMAND} pipeline run, or set"
                    " CRAWLSTREAM_HOME to another directory"
                )
            yield

    def _check_spiders(self, names: Iterable[str], progress: Progress) -> None:
        """Ask a crawler for each spider; that takes as long as to import the user's own."""
        named = list(names)
        if own := ", ".join(name for name in named if name not in BUNDLED):
            progress({f"spider {own}": "being checked"})
        check_spiders(named, self.environment())

    def _choose_partitions(self, wanted: int | None) -> None:
        if wanted is not None and "redis" not in self._layout.local:
            raise SetupError(
                "--partitions starts Redis servers, but the environment names one that runs:"
                " remove REDIS_HOST, REDIS_HOSTS and REDIS_CLUSTER, or --partitions"
            )
        chosen = choose_partitions(self.home, wanted)
        self._layout = replace(self._layout, partitions=chosen)

    def _render(self) -> None:
        """Write the configuration of the servers that run here, and of the crawlers."""
        self._layout.note(self._layout.crawlers)
        folder, ports, local = self.home.path, self._layout.ports, self._layout.local
        if "redis" in local:
            note_partitions(self.home, self._layout.partitions)
        self.redis_servers()
        if "zookeeper" in local:
            servers.zookeeper(folder, port=ports.zookeeper, jars=find_jars(self.home))
        if "kafka" in local:
            servers.format_kafka(servers.kafka(folder, port=ports.kafka, jars=find_jars(self.home)))


def find_pipelines(home: Home, given: Mapping[str, str]) -> Path | None:
    """The file of the pipelines that run with a cluster: the one that is named, or is there."""
    if named := given.get("CRAWLSTREAM_PIPELINES"):
        return Path(named).absolute()
    here = (Path(), home.path)
    found = (folder / "pipelines.toml" for folder in here)
    return next((file.absolute() for file in found if file.is_file()), None)


def adopt_running_cluster() -> None:
    """Let the clients in this process find the cluster that runs in the home.

    What the environment names already is left alone.
    """
    absent = LocalCluster().client_settings if _names_a_port() else None
    for name, value in note_for(os.environ, absent).items():
        os.environ.setdefault(name, value)


def _with_absolute_paths(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables whose paths mean the same in every folder that a process runs in."""
    found = dict(environment)
    for name, separator in _PATHS.items():
        if paths := [each.strip() for each in found.get(name, "").split(separator) if each.strip()]:
            found[name] = separator.join(str(Path(path).absolute()) for path in paths)
    return found


def _names_a_port() -> bool:
    return any(f"CRAWLSTREAM_{name.upper()}_PORT" in os.environ for name in Ports.__slots__)
