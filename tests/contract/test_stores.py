"""The bundled stores of rows keep the contract for the author of another one."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from redis import Redis

from crawlstream.boot.settings import load_settings
from crawlstream.plugins.sinks import Row, RowStore, SinkSpec
from crawlstream_chaos.processes import RunningServer
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.contract import (
    POSITION,
    IdempotentContract,
    StoreContract,
    rows_of,
    write,
)
from pipeline_service.sink_factory import make_maker, open_rows
from pipeline_service.sinks.idempotent import row_store
from pipeline_service.spec.config import read
from support.bus.values import committed
from support.documented import install_example_sink
from support.pipelines.keyed import KeyedSink
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


class TestKeyed(IdempotentContract):
    """A store without transactions."""

    @pytest.fixture(autouse=True)
    def _place(self, redis_server: RunningServer) -> None:
        self.options = {"url": f"redis://127.0.0.1:{redis_server.port}/2"}

    def make(self, spec: SinkSpec) -> KeyedSink:
        """As a pipeline has it."""
        return KeyedSink(spec)

    def keys(self, spec: SinkSpec) -> Sequence[str]:
        """By the keys of Redis."""
        begin = f"{spec.pipeline}:{spec.edition}:page:"
        with Redis.from_url(self.options["url"], decode_responses=True) as redis:
            return [key.removeprefix(begin) for key in redis.scan_iter(match=f"{begin}*")]

    def test_a_writer_that_is_overtaken_writes_no_note(self) -> None:
        """Another one writes, and moves the position, while it writes its rows."""
        spec = self.spec()
        first, second = rows_of(spec, 2)
        with closing(row_store(KeyedSink(spec))) as other:

            def overtake() -> None:
                assert other.read("") == {}
                assert write(other, None, "1", [first])

            with closing(row_store(_Slow(spec, overtake))) as late:
                assert late.read("") == {}
                assert not write(late, None, "9", [second], more={"t-00000/run/x": "9"})
            assert other.read("") == {POSITION: "1"}
            assert write(other, "1", "2", [second])
        assert Counter(self.keys(spec)) == Counter([first.key, second.key])


class _Slow(KeyedSink):
    """A store in which something happens before rows are written."""

    def __init__(self, spec: SinkSpec, meanwhile: Callable[[], None]) -> None:
        super().__init__(spec)
        self._meanwhile = meanwhile

    def put(self, rows: Sequence[Row]) -> None:
        """Write rows late."""
        self._meanwhile()
        super().put(rows)


def test_the_documented_sink_passes_its_tests(tmp_path: Path, redis_server: RunningServer) -> None:
    """Runs the documented sink and its tests as a reader of ``docs/sinks.md`` does."""
    install_example_sink(tmp_path)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_redisink.py"]
    url = f"redis://127.0.0.1:{redis_server.port}/1"
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "REDIS_URL": url}
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
