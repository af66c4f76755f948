"""Every kind of sink, in every store that it is for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from crawlstream_chaos.pipelines.objects import ROOT, register
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from support.documented import install_example_sink
from support.pipelines.keyed import install_keyed_sink
from support.pipelines.search_server import search_server
from support.pipelines.targets import Target

_LONG = ["test_connect.py", "test_readers.py"]
collect_ignore = [] if os.environ.get("CRAWLSTREAM_LONG") == "1" else _LONG
_FEW = "max_records = 6, max_age = 3600"


@pytest.fixture
def make_target(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> object:
    """A function that makes a target of a kind, empty."""
    register()

    def make(kind: str, more: str = "") -> Target:
        env = {ROOT: str(tmp_path / "objects")}
        if kind == "iceberg":
            env = {"CATALOG": str(tmp_path / "catalog.db")}
        if kind == "kafka":
            port = request.getfixturevalue("kafka_server").port
            env = {"KAFKA_HOSTS": f"127.0.0.1:{port}", "KAFKA_TOPIC_PREFIX": fresh_name}
        if kind in {"redis", "keyed"}:
            site = tmp_path / "site"
            if not site.exists():
                (install_example_sink if kind == "redis" else install_keyed_sink)(site)
            monkeypatch.syspath_prepend(str(site))
            env = {"SINK_SITE": str(site)}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return Target(_described(request, kind, tmp_path, fresh_name) + more, tmp_path, env)

    return make


@pytest.fixture
def search_url() -> Iterator[str]:
    """The URL of a server of search indexes."""
    with search_server() as (_, url):
        yield url


def _described(request: pytest.FixtureRequest, kind: str, folder: Path, name: str) -> str:
    kind, _, which = kind.partition("/")
    if kind in {"file", "objects"}:
        path = f"file://{folder}/out" if kind == "file" else "objects://bucket/out"
        return f'kind = "files", path = "{path}", format = "{which or "jsonl"}", {_FEW}'
    if kind == "search":
        url = request.getfixturevalue("search_url")
        return f'kind = "search", url = "{url}", index = "{name}.out", document = "visit"'
    plain = {
        "delta": f'kind = "delta", url = "{folder}/a table", {_FEW}',
        "iceberg": f'kind = "iceberg", catalog = "test", table = "web.pages",'
        f' url = "{folder}/a table", {_FEW}',
        "sqlite": f'kind = "sql", url = "sqlite:///{folder}/pages.db"',
        "kafka": f'kind = "kafka", topic = "{name}.out"',
    }
    if kind in plain:
        return plain[kind]
    if kind in {"redis", "keyed"}:
        return f'kind = "{kind}", url = "{_emptied(request.getfixturevalue("redis_server"))}"'
    server: RunningPostgres = request.getfixturevalue("postgres_server")
    return f'kind = "sql", url = "{server.make_database(name)}"'


def _emptied(server: RunningServer) -> str:
    url = f"redis://127.0.0.1:{server.port}/0"
    with Redis.from_url(url) as client:
        client.flushdb()
    return url
