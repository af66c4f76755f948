"""Where the contract of sinks is tried: each kind of sink, and how its pages are read back."""

from __future__ import annotations

import multiprocessing
import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

import duckdb
import psutil
import psycopg
from deltalake import DeltaTable
from opensearchpy import OpenSearch
from redis import Redis

from crawlstream.boot.settings import load_settings
from crawlstream.store.store import Store
from crawlstream.wire.delivered import decode
from crawlstream_chaos.pipelines.delta_log import live_files
from pipeline_service.sink_factory import open_kept
from pipeline_service.sinks.sink import SinkPosition
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.spec.lake import IcebergSpec, LakeSpec
from pipeline_service.spec.sinks import KafkaSpec, PluginSpec, SearchSpec, SqlSpec
from support.bus.values import committed
from support.forks.program import PRELOADED
from support.pipelines import writer
from support.pipelines.iceberg_files import rows_of_iceberg
from support.pipelines.reading import pages_in
from support.pipelines.results import page_id

OF_FILES = ("before_claim", "after_claim", "after_put", "after_finish")
OF_LAKES = ("before_commit", "after_put", "after_commit")
OF_ROWS = ("before_write", "in_write", "after_write")
OF_KEYS = ("before_write", "after_rows", "after_write")
EXPECTED = Counter(page_id(n) for n in range(writer.PAGES))
ACCOUNT = {
    "read": writer.PAGES + 8,
    "delivered": writer.PAGES,
    "repeats": 5,
    "lost": 0,
    "filtered": {"where.status": 1},
    "undelivered": {"unreadable": 2},
}
_TIMEOUT_S = 300


class Writing:
    """A writer process: forked of one that has imported all, so that it costs little to begin."""

    def __init__(
        self, env: Mapping[str, str], run: Callable[[Mapping[str, str]], None] = writer.run
    ) -> None:
        """``run``: writes, by these variables."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*PRELOADED])
        self._process = context.Process(target=run, args=[dict(env)], daemon=True)
        self._process.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()
        self._process.close()

    def wait(self) -> int:
        """Its exit code, negative for a signal."""
        self._process.join(_TIMEOUT_S)
        assert self._process.exitcode is not None
        return self._process.exitcode

    @property
    def is_frozen(self) -> bool:
        """Return whether it has stopped at its failpoint."""
        return psutil.Process(self._process.pid).status() == psutil.STATUS_STOPPED

    def thaw(self) -> None:
        """Let it go on."""
        psutil.Process(self._process.pid).resume()


@dataclass(frozen=True, slots=True)
class Target:
    """A sink, as the file of the pipelines describes it."""

    sink: str
    home: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def steps(self) -> Sequence[str]:
        """Where a writer may die."""
        if 'kind = "keyed"' in self.sink or 'kind = "search"' in self.sink:
            return OF_KEYS
        if self.is_lake:
            return OF_LAKES
        return OF_FILES if self.is_files else OF_ROWS

    @property
    def is_files(self) -> bool:
        """True: it writes files."""
        return isinstance(writer.pipeline(self.sink).sink, FilesSpec)

    @property
    def is_lake(self) -> bool:
        """True: it adds files to a table."""
        return isinstance(writer.pipeline(self.sink).sink, LakeSpec)

    @property
    def spool(self) -> Path:
        """Where files are written first."""
        return self.home / "spool"

    def start(self, failpoint: str = "") -> Writing:
        """A writer, which dies at a failpoint."""
        env = {**self.env, "SINK": self.sink, "SPOOL": str(self.spool), "FAILPOINT": failpoint}
        return Writing(env)

    def beside(self) -> Target:
        """Return a target in this place for another edition; for a table, another table."""
        if self.is_files:
            return self
        if self.is_lake:
            sink = self.sink.replace("a table", "again").replace("web.pages", "web.again")
            return replace(self, sink=sink)
        if isinstance(writer.pipeline(self.sink).sink, SqlSpec):
            return replace(self, sink=f'{self.sink}, table = "again"')
        return replace(self, sink=self.sink.replace(".out", ".again"))

    def bodies(self, more: str = "") -> Sequence[tuple[str, bytes]]:
        """Id and body of each page, as a reader has them."""
        asked = writer.pipeline(self.sink, more)
        if isinstance(asked.sink, FilesSpec):
            found = pages_in(Store.at(asked.place), asked.sink.format)
            return [(page.id, page.body) for page in found]
        if isinstance(asked.sink, LakeSpec):
            return self._in_lake(asked.sink, asked.place)
        if isinstance(asked.sink, KafkaSpec):
            hosts, topic = self.env["KAFKA_HOSTS"], asked.sink.topic
            return [(page.id, page.body) for page in map(decode, committed(hosts, topic))]
        if isinstance(asked.sink, PluginSpec):
            url, begin = asked.sink.options["url"], f"{asked.name}:{asked.edition}:page:"
            return [(page.id, page.body) for page in map(decode, values_at(url, begin))]
        if isinstance(asked.sink, SearchSpec):
            return [(name, b"") for name in documents_of(asked.sink.url, asked.sink.index)]
        return [(row["id"], row.get("body") or b"") for row in self.rows()]

    def _in_lake(self, sink: LakeSpec, place: str) -> Sequence[tuple[str, bytes]]:
        if isinstance(sink, IcebergSpec):
            return rows_of_iceberg(Path(self.env["CATALOG"]), sink.table)
        return rows_of_delta(place)

    @property
    def url(self) -> str:
        """Return the URL of its database."""
        sink = writer.pipeline(self.sink).sink
        assert isinstance(sink, SqlSpec)
        return sink.url

    def rows(self) -> Sequence[dict[str, Any]]:
        """The rows of a table."""
        sink = writer.pipeline(self.sink).sink
        assert isinstance(sink, SqlSpec)
        return select(sink.url, f"select * from {sink.table}")  # noqa: S608  names of this file

    def ids(self, more: str = "") -> Counter[str]:
        """How often each page is there."""
        return Counter(name for name, _ in self.bodies(more))

    def standing(self, more: str = "") -> SinkPosition:
        """How far it has come."""
        kept = open_kept(load_settings(), writer.pipeline(self.sink, more))
        try:
            return kept.standings(writer.TOPIC, [0])[0]
        finally:
            kept.close()

    def assert_all_is_there_once(self) -> None:
        """Every page is there once, no other is, and the account closes."""
        assert self.ids() == EXPECTED
        standing = self.standing()
        assert standing.position == len(writer.values())
        assert standing.account.total.as_record() == ACCOUNT
        assert standing.account.total.is_closed


def rows_of_delta(url: str) -> Sequence[tuple[str, bytes]]:
    """Return id and body of each page of a Delta table: DuckDB and pyarrow agree about them."""
    files = live_files(Path(url))
    if not files:
        return []
    with duckdb.connect() as database:
        relation = database.read_parquet([str(file) for file in files], union_by_name=True)
        body = "body" if "body" in relation.columns else "null"
        counted = relation.select(f"id, {body}").fetchall()
    pages = [(str(name), content or b"") for name, content in counted]
    dataset = DeltaTable(url).to_pyarrow_dataset()
    listed = dataset.to_table(columns=["id"])["id"].to_pylist()
    if live_files(Path(url)) != files:
        return rows_of_delta(url)  # A commit came between the two readers.
    assert sorted(listed) == sorted(name for name, _ in pages)
    return pages


def documents_of(url: str, index: str = "pages") -> Mapping[str, Mapping[str, Any]]:
    """The documents of an index by their ids, as a client library of others has them."""
    with OpenSearch([url]) as client:
        if not client.indices.exists(index=index):
            return {}
        client.indices.refresh(index=index)
        hits = client.search(index=index, body={"size": 1000})["hits"]["hits"]
        return {hit["_id"]: hit["_source"] for hit in hits}


def values_at(url: str, begin: str) -> list[bytes]:
    """The values of a Redis whose keys begin so."""
    with Redis.from_url(url) as client:
        return [client.get(key) for key in client.scan_iter(match=f"{begin}*")]


def select(url: str, statement: str) -> list[dict[str, Any]]:
    """Return the rows of a query, by column."""
    if url.startswith("sqlite:///"):
        file = sqlite3.connect(url.removeprefix("sqlite:///"))
        try:
            cursor = file.execute(statement)
            names = [each[0] for each in cursor.description or ()]
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
            file.commit()
            return found
        finally:
            file.close()
    with psycopg.connect(url) as connection:
        answer = connection.execute(statement)
        names = [each.name for each in answer.description or ()]
        return [dict(zip(names, row, strict=True)) for row in (answer.fetchall() if names else ())]


def rows_of(url: str, table: str) -> list[dict[str, Any]]:
    """The rows of a table of PostgreSQL by their key, once it has been made."""
    if not select(url, f"select to_regclass('{table}') as it")[0]["it"]:
        return []
    return select(url, f"select * from {table} order by id")  # noqa: S608  names of this file


def ids_of(url: str) -> Counter[str]:
    """How often each page is in the table of pages of PostgreSQL."""
    return Counter(row["id"] for row in rows_of(url, "pages"))
