"""Fixtures for tests of proxies: sites, and a client that goes by the pools in a real Redis."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient
from redis.asyncio import Redis

from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.scripted_site import CrawlerSite, page, serving
from crawlstream_cli.app import run
from support.crawler.pools_node import Node
from support.crawler.proxied import Bench
from support.crawler.tls import TlsSite, make_certificate
from support.crawler.visitor import Visitor


@pytest.fixture
def site() -> Iterator[CrawlerSite]:
    """A web of one page."""
    with serving({"/": page()}) as site:
        yield site


@pytest.fixture
def bench(redis: Redis) -> Bench:
    """Pools of this test's own."""
    return Bench(redis)


@pytest.fixture
async def visitor(bench: Bench) -> AsyncIterator[Visitor]:
    """A client that waits two seconds."""
    with bench.visiting(timeout_s=2.0) as visitor:
        yield visitor


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[CrawlerSite]:
    """A site behind TLS."""
    with serving({"/": page()}, kind=TlsSite) as secret:
        assert isinstance(secret, TlsSite)
        secret.certify(make_certificate(tmp_path))
        yield secret


@pytest.fixture
def node(
    zookeeper_server: RunningServer,
    fresh_name: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> Iterator[Node]:
    """A node of this test's own, which the commands find and which does not exist yet."""
    hosts = f"127.0.0.1:{zookeeper_server.port}"
    monkeypatch.setenv("ZOOKEEPER_HOSTS", hosts)
    monkeypatch.setenv("ZOOKEEPER_ID", fresh_name)
    monkeypatch.setenv("CRAWLSTREAM_HOME", str(tmp_path))
    monkeypatch.setenv("CRAWLSTREAM_ALLOW_NETWORKS", "127.0.0.0/8")
    client = KazooClient(hosts=hosts)
    client.start()
    yield Node(client, f"/scrapy-cluster/crawler/{fresh_name}-proxies")
    client.stop()
    client.close()


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs ``crawlstream proxies``; what it printed."""

    def say(*arguments: str, status: int = 0) -> str:
        assert run(["proxies", *arguments]) == status, capsys.readouterr().err
        said = capsys.readouterr()
        return said.out + said.err

    return say
