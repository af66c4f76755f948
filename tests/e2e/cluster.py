"""The cluster of a test session: started by the first test that asks, stopped at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from crawlstream.boot.clients import redis_client
from crawlstream.boot.settings import load_settings
from crawlstream.boot.variables import environment_without_settings
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_chaos.cluster import SETTINGS
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.ports import Ports
from crawlstream_cli.local.probes import PROBES, is_alive
from crawlstream_cli.local.supervisor import ProcessInfo
from crawlstream_frontier.frontier import Frontier
from support.forks.program import run
from support.session.lasting import lasting
from support.waiting import wait_until

_RUNNING = pytest.StashKey["Cluster"]()


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended."""

    status: int
    out: str
    err: str


class Cluster:
    """A running local cluster, and a test's hands on it."""

    def __init__(self, local: LocalCluster) -> None:
        self.local = local
        self.environment = local.environment()
        self.hosts = self.environment["KAFKA_HOSTS"]
        self.prefix = load_settings(**self.environment).kafka_topic_prefix

    def stop(self) -> None:
        """End everything."""
        self.local.stop()

    async def run(
        self,
        *arguments: str,
        extra: Mapping[str, str] | None = None,
        folder: Path | None = None,
        timeout_s: float = 60,
    ) -> Done:
        """Run ``crawlstream …`` as a person in another terminal would, to its end."""
        done = await asyncio.to_thread(
            run,
            "crawlstream_cli",
            *arguments,
            env={**self.environment, **(extra or {})},
            folder=folder or Path.cwd(),
            timeout_s=timeout_s,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    @asynccontextmanager
    async def begun(
        self,
        *arguments: str,
        extra: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Begin to run ``crawlstream …``; it does not outlive the block."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "crawlstream_cli", *arguments),
            cwd=folder,
            env={**self.environment, **(extra or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    def redis(self) -> Redis:
        """A client of its Redis."""
        return redis_client(load_settings(**self.environment))

    async def throttle(self, *arguments: str) -> None:
        """Run ``crawlstream throttle …``, and return when its rules are in force."""
        done = await self.run("throttle", *arguments)
        assert done.status == 0, done.err
        settings = load_settings(**self.environment)
        path, default = settings.throttle_path, settings.default_rule
        written = await ThrottleEditor(settings.zookeeper_hosts, path, default=default).read()

        async def are_in_force() -> bool:
            table = await self.rules()
            return table is not None and table.mzxid >= written.mzxid

        await wait_until(are_in_force)

    async def rules(self) -> ThrottleTable | None:
        """Return the rules that the frontier applies."""
        async with self.redis() as redis:
            return await Frontier(redis, load_settings(**self.environment).keys).rules.table()

    async def pids(self, kind: str) -> list[int]:
        """Process ids of all processes of a kind."""
        processes = await asyncio.to_thread(self.local.processes)
        return [p.pid for p in processes if p.kind == kind and p.pid is not None]

    async def kill(self, kind: str, *, timeout_s: float = 60) -> None:
        """Kill one process of a kind (SIGKILL) and wait until it runs again and answers."""
        killed = (await self.pids(kind))[0]
        os.kill(killed, signal.SIGKILL)

        async def is_back() -> bool:
            return await asyncio.to_thread(self._is_back, kind, killed)

        is_up: bool = await wait_until(is_back, timeout_s=timeout_s, every_s=0.1)
        assert is_up

    def _is_back(self, kind: str, killed: int) -> bool:
        processes = [p for p in self.local.processes() if p.kind == kind]
        return all(p.pid not in (None, killed) and self._answers(p) for p in processes)

    def _answers(self, process: ProcessInfo) -> bool:
        if process.kind in PROBES:
            return self.local._layout.condition_of(process.kind, process.name) == "ready"
        return is_alive(process.kind, self.local._layout.port_of(process.kind, process.name))

    @asynccontextmanager
    async def without(self, kind: str) -> AsyncIterator[None]:
        """Stop the processes of a kind for the length of the block."""
        rpc = self.local._supervisor._rpc().supervisor
        names = [each.name for each in self.local.processes() if each.kind == kind]
        for name in names:
            await asyncio.to_thread(rpc.stopProcessGroup, name)
        try:
            yield
        finally:
            for name in names:
                await asyncio.to_thread(rpc.startProcessGroup, name)

    async def run_crawler(self, extra: dict[str, str], *, timeout_s: float = 60) -> int:
        """Run one more crawler until it ends; its exit status."""
        environment = {**self.environment, "CRAWLSTREAM_METRICS_OFFSET": "19", **extra}
        done = await asyncio.to_thread(
            run,
            *("crawling", "link"),
            env=environment,
            folder=self.local.home.path,
            timeout_s=timeout_s,
        )
        with (self.local.home.logs / "crawler-of-test.log").open("a") as log:
            log.write(done.stderr)
        return done.returncode


def start_cluster(folder: Path, *, tied: bool = True) -> Cluster:
    """Start a cluster on free ports in a folder of its own; tied, it ends with this thread."""
    environment = {**environment_without_settings(os.environ), **SETTINGS}
    local = LocalCluster(folder, ports=Ports.free(), env=environment)
    local.start(spiders={"link": 2}, tied=tied)
    return Cluster(local)


def session_cluster(request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Cluster:
    """The one cluster of this test session, whichever tier asks first."""
    stash = request.config.stash
    if _RUNNING not in stash:
        cluster = stash[_RUNNING] = start_cluster(folders.mktemp("cluster"))
        lasting(request.config).callback(cluster.stop)
    return stash[_RUNNING]
