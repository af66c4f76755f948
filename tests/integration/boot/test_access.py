"""Redis and ZooKeeper that authenticate clients, through TLS: every client logs in."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from redis.exceptions import AuthenticationError, RedisError

from crawlstream.boot.clients import blocking_redis, redis_client
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError, ZooKeeperUnavailable
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream.zoo.client import ZooKeeperSecurity, secure
from crawlstream_chaos.processes import Program, RunningServer
from crawlstream_cli.local import servers
from crawlstream_cli.local.home import find_jars
from crawlstream_cli.local.ports import free_block
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.opening.redis_check import check_redis
from redis_monitor.throttle_watch import ThrottleWatch
from support.crawler.tls import make_certificate
from support.servers import running
from support.waiting import wait_until

PASSWORD = "s3cret of the crawler"  # noqa: S105  of servers that end with the test


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A key and its certificate for 127.0.0.1, which stands for the authority as well."""
    return make_certificate(tmp_path, x509.IPAddress(ip_address("127.0.0.1")))


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Later tests talk to ZooKeeper in the clear."""
    yield
    secure(ZooKeeperSecurity())


@pytest.fixture
def guarded_redis(tmp_path: Path, certificate: Path) -> Iterator[int]:
    """The port of a Redis that speaks TLS only, with those it knows, to one user of its list."""
    port = free_block(1)
    server = servers.redis(tmp_path, port=port, max_memory=1 << 28)
    lines = f"""port 0
tls-port {port}
tls-cert-file {certificate}
tls-key-file {certificate}
tls-ca-cert-file {certificate}
user default off
user crawler on "#{_sha256(PASSWORD)}" ~{{cs0}}* &{{cs0}}* +@all -@dangerous +info
"""
    with (tmp_path / "conf" / "redis.conf").open("a") as conf:
        conf.write(lines)
    with _started(server, "Ready to accept connections"):
        yield port


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@contextmanager
def _started(server: servers.LocalServer, ready: str) -> Iterator[Program]:
    """Run a server that does not answer to strangers; its log shows that it is up."""
    log = server.folder / f"{server.name}.log"
    program = Program(*server.argv, env=os.environ, log=log, folder=server.folder)
    with program.running():
        deadline = time.monotonic() + 60
        while ready not in program.logged():
            assert program.is_running(), program.logged()[-2000:]
            assert time.monotonic() < deadline, program.logged()[-2000:]
            time.sleep(0.05)
        yield program


def _tell(monkeypatch: pytest.MonkeyPatch, server: str, certificate: Path) -> None:
    monkeypatch.setenv(f"CRAWLSTREAM_{server}_TLS", "true")
    for part in ("CA", "CERT", "KEY"):
        monkeypatch.setenv(f"CRAWLSTREAM_{server}_SSL_{part}FILE", str(certificate))


async def test_redis_is_talked_to_through_tls_as_a_user(
    guarded_redis: int, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Admits both kinds of client with user, password and certificate; none with less."""
    monkeypatch.setenv("REDIS_HOST", "127.0.0.1")
    monkeypatch.setenv("REDIS_PORT", str(guarded_redis))
    monkeypatch.setenv("REDIS_USERNAME", "crawler")
    monkeypatch.setenv("REDIS_PASSWORD", PASSWORD)
    _tell(monkeypatch, "REDIS", certificate)
    for make in (redis_client, blocking_redis):
        async with make(load_settings()) as redis:
            assert await redis.acl_whoami() == "crawler"
            await check_redis(redis, load_settings().partitions)
            await Frontier(redis, load_settings().keys).queries.state()
            await redis.set("{cs0}:kept", 1)

    for name, value, error in (
        ("REDIS_PASSWORD", "wrong", AuthenticationError),
        ("REDIS_HOST", "localhost", RedisError),  # Its certificate does not name it.
    ):
        with monkeypatch.context() as changed:
            changed.setenv(name, value)
            async with redis_client(load_settings()) as redis:
                with pytest.raises(error):
                    await redis.get("{cs0}:kept")
    monkeypatch.delenv("CRAWLSTREAM_REDIS_SSL_CAFILE")
    async with redis_client(load_settings()) as redis:
        with pytest.raises(RedisError):  # No known authority has signed it.
            await redis.get("{cs0}:kept")


@pytest.fixture
def guarded_zookeeper(tmp_path: Path, certificate: Path) -> Iterator[tuple[RunningServer, int]]:
    """A ZooKeeper, and its port for TLS with those it knows."""
    secure_port = free_block(1)
    server = servers.zookeeper(tmp_path, port=free_block(1), jars=find_jars())
    lines = f"""secureClientPort={secure_port}
secureClientPortAddress=127.0.0.1
serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory
ssl.keyStore.location={certificate}
ssl.trustStore.location={certificate}
ssl.clientAuth=need
ssl.hostnameVerification=false
"""
    with (tmp_path / "conf" / "zookeeper.properties").open("a") as conf:
        conf.write(lines)
    with running(server) as zookeeper:
        yield zookeeper, secure_port


async def test_zookeeper_is_talked_to_through_tls_as_a_user(
    guarded_zookeeper: tuple[RunningServer, int],
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
    fresh_name: str,
) -> None:
    """Rules are made, changed and watched; they are for their user alone, parents included."""
    server, port = guarded_zookeeper
    monkeypatch.setenv("ZOOKEEPER_HOSTS", f"127.0.0.1:{port}")
    monkeypatch.setenv("ZOOKEEPER_ASSIGN_PATH", f"/{fresh_name}/crawler")
    monkeypatch.setenv("CRAWLSTREAM_ZOOKEEPER_USERNAME", "crawler")
    monkeypatch.setenv("CRAWLSTREAM_ZOOKEEPER_PASSWORD", PASSWORD)
    _tell(monkeypatch, "ZOOKEEPER", certificate)
    settings = load_settings()
    tables = []

    async def take(table: ThrottleTable) -> None:
        tables.append(table)

    editor = ThrottleEditor(
        settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
    )
    await editor.seed()
    watch = ThrottleWatch(
        settings.zookeeper_hosts,
        settings.throttle_path,
        default=settings.default_rule,
        on_table=take,
    )
    await watch.start()
    try:
        await editor.set_rule("example.com", hits=3)
        await wait_until(lambda: bool(tables) and "example.com" in tables[-1].rules, timeout_s=20)
    finally:
        await watch.stop()
    stranger = KazooClient(f"127.0.0.1:{server.port}")
    stranger.start()
    try:
        for path in (f"/{fresh_name}", settings.throttle_path):
            with pytest.raises(NoAuthError):
                stranger.get_children(path)
    finally:
        stranger.stop()
        stranger.close()

    for name in ("TLS", "SSL_CAFILE", "SSL_CERTFILE", "SSL_KEYFILE"):
        monkeypatch.delenv(f"CRAWLSTREAM_ZOOKEEPER_{name}")
    monkeypatch.setenv("CRAWLSTREAM_ZOOKEEPER_PASSWORD", "wrong")
    load_settings()
    wrong = ThrottleEditor(
        [f"127.0.0.1:{server.port}"], settings.throttle_path, default=settings.default_rule
    )
    with pytest.raises(ZooKeeperUnavailable, match="CRAWLSTREAM_ZOOKEEPER_USERNAME"):
        await wrong.read()


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"REDIS_USERNAME": "crawler"}, "REDIS_PASSWORD"),
        ({"CRAWLSTREAM_REDIS_SSL_CAFILE": "ca.pem"}, "CRAWLSTREAM_REDIS_TLS=true"),
        ({"CRAWLSTREAM_ZOOKEEPER_SSL_CAFILE": "ca.pem"}, "CRAWLSTREAM_ZOOKEEPER_TLS=true"),
        ({"CRAWLSTREAM_ZOOKEEPER_USERNAME": "crawler"}, "CRAWLSTREAM_ZOOKEEPER_PASSWORD"),
        ({"REDIS_TLS": "true", "CRAWLSTREAM_REDIS_SSL_CERTFILE": "a"}, "REDIS_SSL_KEYFILE"),
    ],
)
def test_half_a_protection_is_refused(
    given: dict[str, str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Naming a part means the whole, and the error lists the missing settings."""
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=named):
        load_settings()
