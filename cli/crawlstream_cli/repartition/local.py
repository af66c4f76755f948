"""The cluster of this machine: its Redis servers are exchanged for those of the new frontier.

The new servers fill a folder of their own, ``repartition`` in the home. When all is there, the data
of both change places, by renaming. The note ``data/repartition`` says how far that is; while it is
there, ``up`` starts nothing.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping

from redis import Redis
from redis.exceptions import RedisError

from crawlstream.boot.failpoints import failpoint
from crawlstream.boot.local_note import home_path, note_for
from crawlstream.boot.settings import Settings, load_settings
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, SetupError
from crawlstream_cli.local import servers
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.partitions import (
    MOST_LOCAL,
    Stage,
    note_move,
    note_number,
    partitions_in,
    redis_names,
    stage_of_move,
)
from crawlstream_cli.local.ports import free_block
from crawlstream_extract.workers.tether import die_with_parent

_LOADING_S, _ENDING_S = 600.0, 60.0


def local_cluster(environment: Mapping[str, str]) -> LocalCluster:
    """The cluster in the home, where it listens if it runs."""
    told = note_for(environment)
    ports = {name: text for name, text in told.items() if name.endswith("_PORT")}
    own = {name: text for name, text in ports.items() if name.startswith("CRAWLSTREAM_")}
    return LocalCluster(home_path(environment), env={**own, **environment})


class LocalMove:
    """The servers of a move on this machine."""

    def __init__(self, cluster: LocalCluster, to: int) -> None:
        """ConfigError, SetupError: it cannot be."""
        self._cluster = cluster
        self.home = cluster.home
        self._stage = stage_of_move(cluster.home)
        self._from = partitions_in(cluster.home) if not self._stage else self._stage.old
        self._to = to
        self._folder = cluster.home.path / "repartition"
        self._running: list[subprocess.Popen[bytes]] = []
        if to > MOST_LOCAL:
            raise ConfigError(f"--to {to}: a cluster on one machine has at most {MOST_LOCAL}")
        if self._stage and self._stage.new != to:
            raise SetupError(
                f"the frontier in {self.home.path} is being moved into {self._stage.new}"
                " partition(s): repeat the command with that number, or with --cancel"
            )
        if not cluster.has_redis:
            raise ConfigError(
                "the environment names a Redis that was not started here: name the new servers"
                " with --redis or --cluster"
            )
        self._port = free_block(to)

    def require_change(self) -> None:
        """SetupError where there is nothing to be done, or something in the way."""
        if not self._stage and self._from == self._to:
            raise SetupError(
                f"the frontier in {self.home.path} has {self._to} partition(s) already"
            )
        if (self._folder / "before").exists() and not self._stage:
            raise SetupError(
                f"{self._folder} has the data from before an earlier move: delete them with"
                " repartition --forget"
            )

    def settings(self) -> Settings:
        """Settings of the old frontier."""
        return load_settings(**self._cluster.environment())

    def target(self) -> Settings:
        """Settings of the new one, while it is filled."""
        hosts = ",".join(f"127.0.0.1:{self._port + n}" for n in range(self._to))
        return load_settings(
            **{
                **self._cluster.environment(),
                "REDIS_HOSTS": hosts,
                "CRAWLSTREAM_PARTITIONS": str(self._to),
            }
        )

    @property
    def is_copied(self) -> bool:
        """Return whether only the data folders have to be swapped."""
        return self._stage is not None and self._stage.is_copied

    def begin(self) -> None:
        """Start the new servers, empty, and the old ones if they do not run."""
        if not self._cluster.is_running:
            if self._stage is None:
                raise SetupError(
                    f"the cluster is not running: start it with {COMMAND} up -d, so that"
                    " pages in flight come to their end, and repeat this command"
                )
            self._start_old()
        shutil.rmtree(self._folder / "data", ignore_errors=True)
        for number, name in enumerate(redis_names(self._to)):
            self._start(
                servers.redis(
                    self._folder,
                    port=self._port + number,
                    password=self.home.redis_password,
                    name=name,
                    partitions=self._to,
                )
            )

    def stop(self) -> None:
        """Stop the cluster; from now on no other command starts it."""
        note_move(self.home, Stage(self._from, self._to, is_copied=False))
        failpoint("repartition_stopping")
        self._cluster.stop()

    def start_old(self) -> None:
        """Start its Redis again, alone; from the main thread."""
        if not self._cluster.is_running and len(self._running) == self._to:
            self._start_old()

    def end(self) -> None:
        """Stop what was started here."""
        for process in self._running:
            process.send_signal(signal.SIGTERM)
        for process in self._running:
            process.wait(_ENDING_S)
        self._running.clear()

    def place(self) -> None:
        """Let the new data be those of the home; safe to repeat."""
        data, before, new = self.home.data, self._folder / "before", self._folder / "data"
        if not self.is_copied:
            note_move(self.home, Stage(self._from, self._to, is_copied=True))
        failpoint("repartition_placing")
        before.mkdir(exist_ok=True)
        for name in redis_names(self._from):
            # A folder with this name may be the new one already.
            if not (before / name).exists() and (data / name).exists():
                (data / name).rename(before / name)
        failpoint("repartition_half_placed")
        for name in redis_names(self._to):
            if (new / name).exists():
                (new / name).rename(data / name)
        note_number(self.home, self._to)
        note_move(self.home, None)

    def drop(self) -> None:
        """The move was given up: nothing of it stays."""
        shutil.rmtree(self._folder, ignore_errors=True)
        note_move(self.home, None)

    def forget(self) -> None:
        """Delete the data from before the move."""
        if self._stage or not (self._folder / "before").exists():
            raise ConfigError(f"there is nothing to delete in {self._folder}")
        shutil.rmtree(self._folder)

    def after(self) -> list[str]:
        """Return the next steps for the user."""
        return [f"Start the cluster: {COMMAND} up -d"]

    def _start_old(self) -> None:
        for server in self._cluster.redis_servers():
            self._start(server)

    def _start(self, server: servers.LocalServer) -> None:
        process = subprocess.Popen(
            server.argv,
            cwd=server.folder,
            stdout=subprocess.DEVNULL,
            env=dict(os.environ),
            preexec_fn=die_with_parent(signal.SIGTERM),  # noqa: PLW1509 no thread here forks
        )
        self._running.append(process)
        client = Redis(port=server.port, password=self.home.redis_password)
        until = time.monotonic() + _LOADING_S
        while not _answers(client):
            if process.poll() is not None or time.monotonic() > until:
                raise SetupError(f"Redis does not start on port {server.port} with {server.folder}")
            time.sleep(0.05)
        client.close()


def _answers(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except (RedisError, OSError):
        return False
