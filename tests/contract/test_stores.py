"""Our stores of rows keep what the author of another one has to keep."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from crawlstream.boot.settings import load_settings
from crawlstream.plugins.contract import StoreContract
from crawlstream.plugins.sinks import RowStore, SinkSpec
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.sink_factory import make_maker, open_rows
from pipeline_service.spec.config import read
from support.bus.values import committed
from support.documented import install_example_sink
from support.pipelines.targets import select


class OfOurs(StoreContract):
    """A store by what the file of the pipelines says."""

    def make(self, spec: SinkSpec) -> RowStore:
        """As a pipeline has it."""
        table = ", ".join(f'{name} = "{value}"' for name, value in spec.options.items())
        text = f"[pipeline.{spec.pipeline}]\nedition = {spec.edition}\nsink = {{{table}}}"
        pipeline = read(text, {})[spec.pipeline]
        settings = load_settings()
        return open_rows(settings, pipeline, make_maker(settings, pipeline))


class _OfSql(OfOurs):
    def keys(self, spec: SinkSpec) -> Sequence[str]:
        """By its primary key."""
        rows = select(spec.options["url"], "select id from pages")
        return [row["id"] for row in rows if row["id"].startswith(spec.pipeline)]


class TestSqlite(_OfSql):
    """A file of SQLite."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.options = {"kind": "sql", "url": f"sqlite:///{tmp_path}/pages.db"}


class TestPostgresql(_OfSql):
    """A database of PostgreSQL."""

    @pytest.fixture(autouse=True)
    def _place(self, postgres_server: RunningPostgres, fresh_name: str) -> None:
        self.options = {"kind": "sql", "url": postgres_server.make_database(fresh_name)}


class TestKafka(OfOurs):
    """A topic of Kafka."""

    @pytest.fixture(autouse=True)
    def _place(
        self, kafka_server: RunningServer, fresh_name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("KAFKA_HOSTS", f"127.0.0.1:{kafka_server.port}")
        monkeypatch.setenv("KAFKA_TOPIC_PREFIX", fresh_name)
        self.options = {"kind": "kafka", "topic": f"{fresh_name}.out"}

    def keys(self, spec: SinkSpec) -> Sequence[str]:
        """By what committed records say."""
        values = committed(os.environ["KAFKA_HOSTS"], spec.options["topic"])
        found: list[str] = [orjson.loads(value)["id"] for value in values]
        return [key for key in found if key.startswith(spec.pipeline)]


def test_the_documented_sink_passes_its_tests(tmp_path: Path, redis_server: RunningServer) -> None:
    """As a reader of ``docs/sinks.md`` runs them."""
    install_example_sink(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_redisink.py"]
    url = f"redis://127.0.0.1:{redis_server.port}/1"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REDIS_URL": url}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
