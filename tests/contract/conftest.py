"""Every kind of sink, in every store that it is for."""

from __future__ import annotations

from pathlib import Path

import pytest

from crawlstream.chaos.stores.postgres import RunningPostgres
from support.pipelines.objects import register
from support.pipelines.targets import Target

_FEW = "max_records = 6, max_age = 3600"


@pytest.fixture
def make_target(
    request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str, monkeypatch: pytest.MonkeyPatch
) -> object:
    """A function that makes a target of a kind, empty."""
    monkeypatch.setenv("OBJECTS_ROOT", str(tmp_path / "objects"))
    register()

    def make(kind: str, more: str = "") -> Target:
        env = {}
        if kind == "kafka":
            port = request.getfixturevalue("kafka_server").port
            env = {"KAFKA_HOSTS": f"127.0.0.1:{port}", "KAFKA_TOPIC_PREFIX": fresh_name}
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return Target(_described(request, kind, tmp_path, fresh_name) + more, tmp_path, env)

    return make


def _described(request: pytest.FixtureRequest, kind: str, folder: Path, name: str) -> str:
    kind, _, which = kind.partition("/")
    if kind == "file":
        return (
            f'kind = "files", path = "file://{folder}/out", format = "{which or "jsonl"}", {_FEW}'
        )
    if kind == "objects":
        return (
            f'kind = "files", path = "objects://bucket/out", format = "{which or "jsonl"}", {_FEW}'
        )
    if kind == "sqlite":
        return f'kind = "sql", url = "sqlite:///{folder}/pages.db"'
    if kind == "kafka":
        return f'kind = "kafka", topic = "{name}.out"'
    server: RunningPostgres = request.getfixturevalue("postgres_server")
    return f'kind = "sql", url = "{server.make_database(name)}"'
