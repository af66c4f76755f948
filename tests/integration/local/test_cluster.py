"""The one-machine cluster: what keeps it from starting, what brings it back, what ends it.

The servers are real; stand-ins play crawlstream's processes, so that only the cluster is tested.
``tests/e2e`` runs the real ones.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest
from redis import AuthenticationError, Redis

from crawlstream.boot.settings import load_settings
from crawlstream.boot.variables import environment_without_settings
from crawlstream.errors import ConfigError, SetupError
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.processes import RunningServer, freeze
from crawlstream_cli.local.cluster import LocalCluster
from crawlstream_cli.local.crawlers import note_crawlers, scaled
from crawlstream_cli.local.ports import Ports, free_block
from crawlstream_cli.local.readiness import NotReady
from support.stand_in import stand_ins
from support.waiting import wait_until

_REFUSES = "import sys; sys.stderr.write('REDIS_DB: no such database'); sys.exit(2)"


def _environment(folder: Path, **programs: str) -> dict[str, str]:
    paths = [str(stand_ins(folder / "stand-ins", **programs)), os.environ.get("PYTHONPATH", "")]
    return {
        **environment_without_settings(os.environ),
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster that has not been started, in a home whose path is a hard one."""
    home = tmp_path / "ä home with 100 % of 'odd' \"marks\"" / ("x" * 60)
    made = LocalCluster(home, ports=Ports.free(), env=_environment(tmp_path))
    yield made
    made.stop()


def _without_kafka(folder: Path, **programs: str) -> dict[str, str]:
    """An environment in which only Redis is started, and `up` waits for a Kafka in vain."""
    nobody = f"127.0.0.1:{free_block(1)}"
    return {
        **_environment(folder, **programs),
        **Ports.free().variables(),
        "KAFKA_HOSTS": nobody,
        "ZOOKEEPER_HOSTS": nobody,
        "CRAWLSTREAM_HOME": str(folder / "home"),
    }


def _pids(cluster: LocalCluster) -> dict[str, int]:
    return {process.name: process.pid or 0 for process in cluster.processes()}


async def test_what_dies_comes_back_and_what_is_left_is_cleared_up(cluster: LocalCluster) -> None:
    """A killed process starts again; the orphans of a killed supervisord are found and ended."""
    states: list[Mapping[str, str]] = []
    await asyncio.to_thread(
        cluster.start, spiders={"wandering": 1, "link": 2}, progress=states.append
    )
    before = _pids(cluster)
    assert set(before) == {
        *("redis", "zookeeper", "kafka", "kafka-monitor", "redis-monitor", "rest"),
        *("crawler-link-1", "crawler-link-2", "crawler-wandering-1"),
    }
    assert set(states[-1].values()) == {"ready"}
    _check_that_it_is_private(cluster)

    os.kill(before["redis"], signal.SIGKILL)
    os.kill(before["crawler-link-2"], signal.SIGKILL)

    def are_back() -> bool:
        now = _pids(cluster)
        return all(now[name] not in (0, before[name]) for name in ("redis", "crawler-link-2"))

    await wait_until(are_back, timeout_s=20)
    with pytest.raises(SetupError, match="already running"):
        LocalCluster(cluster.home.path, env=cluster.environment()).start()
    with pytest.raises(SetupError, match="a cluster is running in"):
        async with ChaosCluster(cluster.home.path, pages=50, hosts=2, workers=1):
            pytest.fail("chaos began in the home of another")
    assert (cluster.home.path / "data").exists()

    supervisord = cluster._supervisor.pid()
    assert supervisord is not None
    os.kill(supervisord, signal.SIGKILL)
    await wait_until(lambda: not cluster.is_running)
    orphans = [psutil.Process(pid) for pid in _marked(cluster)]
    assert len(orphans) >= len(before)
    assert cluster.stop() == len(orphans)
    assert not any(process.is_running() for process in orphans)


def _check_that_it_is_private(cluster: LocalCluster) -> None:
    """Other users can neither read what it writes nor use its Redis, and see no password."""
    home, settings = cluster.home, load_settings(**cluster.environment())
    assert not any(path.stat().st_mode & 0o077 for path in home.path.iterdir())
    assert not any(log.stat().st_mode & 0o077 for log in home.logs.glob("*.log"))
    stranger = Redis(port=settings.redis_port)
    with pytest.raises(AuthenticationError):
        stranger.ping()
    assert Redis(port=settings.redis_port, password=home.redis_password).ping()
    lines = [" ".join(psutil.Process(pid).cmdline()) for pid in _marked(cluster)]
    assert not [line for line in lines if (home.redis_password or "none") in line]


def _marked(cluster: LocalCluster) -> list[int]:
    return [process.pid for process in cluster._supervisor.leftovers()]


def test_a_process_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    """`up` does not wait for what waiting does not heal, and stops what it had started."""
    environment = _without_kafka(tmp_path, redis_monitor=_REFUSES)
    cluster = LocalCluster(tmp_path / "home", env=environment)
    with pytest.raises(SetupError, match=r"redis-monitor does not start.*no such database"):
        cluster.start()
    assert not _marked(cluster)


def test_ports_in_use_are_all_named_before_anything_starts(tmp_path: Path) -> None:
    """A single sentence lists each busy port, its user, and the variable that moves it."""
    ports = Ports.free()
    cluster = LocalCluster(tmp_path / "home", ports=ports, env=_environment(tmp_path))
    busy = _listening(ports.kafka + 1), _listening(ports.metrics + 12)
    with busy[0], busy[1], pytest.raises(SetupError) as refused:
        cluster.start(spiders={"link": 2})
    said = str(refused.value)
    assert f"{ports.kafka + 1} (Kafka's controller)" in said
    assert f"{ports.metrics + 12} (crawler-link-2's metrics)" in said
    assert "CRAWLSTREAM_KAFKA_PORT, CRAWLSTREAM_METRICS_PORT" in said
    assert not _marked(cluster)


def _listening(port: int) -> socket.socket:
    return socket.create_server(("127.0.0.1", port))


def test_ports_that_the_cluster_shares_with_itself_are_refused(tmp_path: Path) -> None:
    """Names both parts that would listen on one port, derived ports included."""
    ports, environment = Ports.free(), _environment(tmp_path)
    for clash, names in {
        "rest": (ports.redis + 1, "Redis-1 and REST"),
        "zookeeper": (ports.kafka + 1, "Kafka's controller and ZooKeeper"),
        "metrics": (ports.rest - 11, "REST and crawler-link-1's metrics"),
    }.items():
        port, said = names
        shared = replace(ports, **{clash: port})
        cluster = LocalCluster(tmp_path / clash, ports=shared, env=environment)
        with pytest.raises(ConfigError, match=f"given to both {said}: choose other ports"):
            cluster.start(partitions=3)
        assert not _marked(cluster)


async def test_what_is_slow_takes_nothing_down_that_is_ready(tmp_path: Path) -> None:
    """`up -d` says what it waits for, how long, and where to look; then all of it goes on."""
    environment = {**_without_kafka(tmp_path), "CRAWLSTREAM_START_TIMEOUT": "12"}
    del environment["ZOOKEEPER_HOSTS"]
    cluster = LocalCluster(tmp_path / "home", env=environment)
    log, said = cluster.home.logs / "zookeeper.log", tmp_path / "said"
    try:
        with said.open("wb") as file:
            up = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "crawlstream_cli", "up", "-d"), env=environment, stderr=file
            )
        await wait_until(lambda: _pids(cluster).get("zookeeper"))
        before = _pids(cluster)
        freeze(before["zookeeper"])
        assert await up.wait() == 1
        lines = said.read_text().splitlines()
        assert "redis ready" in lines
        assert f"zookeeper starting for 10 s, see {log}" in lines
        assert "nothing has advanced for 12 s (CRAWLSTREAM_START_TIMEOUT)" in lines[-1]
        late = rf"not ready yet: zookeeper \(starting for \d\d s, see {re.escape(str(log))}\)"
        assert re.search(late, lines[-1])
        assert "`./crawlstream status` shows" in lines[-1]
        os.kill(before["zookeeper"], signal.SIGCONT)

        def is_ready() -> bool:
            return cluster.conditions(cluster.processes()).get("zookeeper") == "ready"

        await wait_until(is_ready)
        assert _pids(cluster) == before
    finally:
        cluster.stop()


async def test_without_detach_up_waits_until_the_user_ends_it(tmp_path: Path) -> None:
    """Any time without progress is waited for; Ctrl-C then stops everything."""
    environment = {**_without_kafka(tmp_path), "CRAWLSTREAM_START_TIMEOUT": "1"}
    del environment["ZOOKEEPER_HOSTS"]
    cluster, said = LocalCluster(tmp_path / "home", env=environment), tmp_path / "said"
    try:
        with said.open("wb") as file:
            up = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "crawlstream_cli", "up"), env=environment, stderr=file
            )
        zookeeper = await wait_until(lambda: _pids(cluster).get("zookeeper"))
        freeze(zookeeper)
        await wait_until(lambda: "zookeeper starting for 10 s" in said.read_text())
        os.kill(zookeeper, signal.SIGCONT)
        up.send_signal(signal.SIGINT)
        assert await up.wait() == 130
        assert not _marked(cluster)
    finally:
        cluster.stop()


_SLOW = """
import os, runpy, time
while os.path.exists({slow!r}):
    time.sleep(0.05)
runpy.run_module("redis_monitor", run_name="__main__")
"""


async def test_slow_crawlers_are_left_to_start_beside_a_running_cluster(
    tmp_path: Path, kafka_server: RunningServer, fresh_name: str
) -> None:
    """`up --spider` that ends before they are ready takes none away; the next one waits again."""
    slow = tmp_path / "slow"
    environment = {
        **_without_kafka(tmp_path, crawling=_SLOW.format(slow=str(slow))),
        "KAFKA_HOSTS": f"127.0.0.1:{kafka_server.port}",
        "KAFKA_TOPIC_PREFIX": fresh_name,
    }
    home = tmp_path / "home"
    cluster = LocalCluster(home, env=environment)
    try:
        await asyncio.to_thread(cluster.start)
        before = _pids(cluster)
        slow.touch()
        hurried = LocalCluster(home, env={**environment, "CRAWLSTREAM_START_TIMEOUT": "0.001"})
        with pytest.raises(NotReady, match=r"not ready yet: .*crawler-link-2 \(starting for"):
            await asyncio.to_thread(hurried.scale, {"link": 2})
        began = _pids(cluster)
        assert began.keys() == {*before, "crawler-link-2"}
        slow.unlink()
        await asyncio.to_thread(cluster.scale, {"link": 2})
        assert _pids(cluster) == began
    finally:
        cluster.stop()


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGHUP, signal.SIGKILL])
async def test_whatever_ends_a_start_leaves_nothing_running(
    tmp_path: Path, how: signal.Signals
) -> None:
    """Ctrl-C, a closed terminal and even SIGKILL take along what `up` has started so far."""
    environment = _without_kafka(tmp_path)
    cluster = LocalCluster(tmp_path / "home", env=environment)
    up = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "crawlstream_cli", "up"),
        env=environment,
        stderr=subprocess.DEVNULL,
        # A shell that ignores it passes that on, and `up` keeps it.
        preexec_fn=None if how is signal.SIGKILL else partial(signal.signal, how, signal.SIG_DFL),
    )
    await wait_until(lambda: len(_marked(cluster)) > 3, timeout_s=30)
    up.send_signal(how)
    assert await up.wait() == (-how if how is signal.SIGKILL else 130)
    await wait_until(lambda: not _marked(cluster), timeout_s=30, every_s=0.2)


_LINGERS = """
import os, signal, time
signal.signal(signal.SIGTERM, lambda *_: open(f"%s/{os.getpid()}", "w").close())
time.sleep(3600)
"""


async def test_a_cluster_that_is_being_stopped_is_left_to_finish(tmp_path: Path) -> None:
    """Crawlers of all spiders end together; neither `down` nor `up` cuts short what they do."""
    told = tmp_path / "told"
    told.mkdir()
    environment = _without_kafka(tmp_path, crawling=_LINGERS % str(told))
    home = tmp_path / "home"
    cluster = LocalCluster(home, env=environment)
    cluster.home.prepare()
    cluster._render()
    note_crawlers(cluster.home, scaled((), {"link": 1, "wandering": 1}, environment))
    cluster._supervisor.start({**environment, **cluster.environment()}, tied=False)
    names = ("crawler-link-1", "crawler-wandering-1")
    await wait_until(lambda: all(map(_pids(cluster).get, names)), timeout_s=10)
    crawlers = [psutil.Process(_pids(cluster)[name]) for name in names]
    await asyncio.sleep(1)
    first = asyncio.create_task(asyncio.to_thread(LocalCluster(home, env=environment).stop))
    await wait_until(lambda: len(list(told.iterdir())) == len(crawlers), timeout_s=20)

    assert cluster.is_running
    assert cluster.is_stopping
    with pytest.raises(SetupError, match="is being stopped"):
        LocalCluster(home, env=environment).start()
    second = asyncio.create_task(asyncio.to_thread(LocalCluster(home, env=environment).stop))
    await asyncio.sleep(1)
    assert all(crawler.is_running() for crawler in crawlers)
    assert not second.done()

    for crawler in crawlers:
        crawler.kill()
    assert (await first, await second) == (0, 0)
    assert cluster.stop() == 0
