"""Tables of a lake keep the contract of all; Delta's log keeps positions whatever is done to it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import duckdb
import orjson
import pytest
from deltalake import DeltaTable

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.store.bodies import BodyStore
from crawlstream_chaos.pipelines.delta_log import applications, live_files
from pipeline_service.formats.columns import Column
from pipeline_service.records.judging import Wanted, judge
from pipeline_service.sink_factory import prove
from pipeline_service.sinks.lake.delta import DeltaLake
from pipeline_service.sinks.lake.opening import replay
from pipeline_service.spec.config import read
from pipeline_service.spec.lake import DeltaSpec
from support.pipelines import writer
from support.pipelines.lake_contract import COLUMNS, DAY, NAME, LakeContract, commit_of
from support.pipelines.results import page_id, record
from support.pipelines.s3 import Bucket, s3_server


class OfDelta(LakeContract):
    """A Delta table at ``url``."""

    url = ""

    def make(
        self, columns: Sequence[Column] = COLUMNS, *, days: bool = True, migrate: bool = False
    ) -> DeltaLake:
        """As a pipeline has it."""
        spec = DeltaSpec(url=self.url, partition_by=[*DAY] if days else [], migrate=migrate)
        return DeltaLake(spec, columns=columns)

    def ids(self) -> Sequence[str]:
        """By DuckDB, of the files that the log names; pyarrow reads as many."""
        files = [str(file) for file in live_files(self.folder())]
        with duckdb.connect() as database:
            rows = database.read_parquet(files, union_by_name=True).select("id").fetchall()
        dataset = self.make().dataset()
        assert dataset.count_rows() == len(rows)
        return sorted(row[0] for row in rows)

    def folder(self) -> Path:
        """The table on a disk."""
        raise NotImplementedError


class TestDelta(OfDelta):
    """In a folder whose name needs quoting in a URL."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.url = str(tmp_path / "a table, 100% #1")

    def folder(self) -> Path:
        """It is there."""
        return Path(self.url)

    def compact(self) -> None:
        """As a person does, and expire what the log does not need any more."""
        assert DeltaTable(self.url).optimize.compact()["numFilesRemoved"] > 1
        DeltaTable(self.url).create_checkpoint()
        entries = sorted(Path(self.url, "_delta_log").glob("*.json"))
        for entry in entries[:-1]:
            entry.unlink()

    def test_the_log_is_as_its_protocol_has_it(self, tmp_path: Path) -> None:
        """Others read the position of it, and find rows by the bounds that it has of a file."""
        table = self.opened()
        commit = commit_of(table, ["a"], None, tmp_path)
        position = commit.position
        assert table.commit(commit)
        told = {NAME: position.next, f"{NAME}/token": position.token}
        assert applications(Path(self.url)) == told
        rows = (
            DeltaTable(self.url).to_pyarrow_table(filters=[("status_code", "=", 200)]).to_pylist()
        )
        assert [(row["id"], str(row["date"])) for row in rows] == [("a", "2026-11-21")]
        (actions,) = (
            DeltaTable(self.url).get_add_actions(flatten=True).to_struct_array().to_pylist()
        )
        assert (actions["num_records"], actions["max.status_code"]) == (1, 200)
        newest = Path(self.url, "_delta_log", f"{1:020}.json").read_text()
        assert orjson.loads(newest.splitlines()[0])["commitInfo"]["crawlstream"]

    def test_a_vacuum_removes_what_was_refused_and_nothing_else(self, tmp_path: Path) -> None:
        """The notes next to the table stay, and so do the files that count."""
        table = self.opened()
        table.files.put("_crawlstream/p/_log/note.json", b"{}")
        assert table.commit(commit_of(table, ["a"], None, tmp_path))
        assert not table.commit(commit_of(table, ["a"], None, tmp_path))
        assert len(list(Path(self.url, "data").iterdir())) == 2
        removed = DeltaTable(self.url).vacuum(
            retention_hours=0, enforce_retention_duration=False, dry_run=False, full=True
        )
        assert len(removed) == 1
        assert table.files.get("_crawlstream/p/_log/note.json") == b"{}"
        assert self.ids() == ["a"]

    @pytest.mark.parametrize(
        ("name", "value", "why"),
        [
            ("delta.setTransactionRetentionDuration", "interval 7 days", "forget how far"),
            ("delta.columnMapping.mode", "name", "features that this sink does not know"),
            ("delta.enableChangeDataFeed", "true", "features that this sink does not know"),
        ],
    )
    def test_a_table_whose_log_needs_more_is_refused(self, name: str, value: str, why: str) -> None:
        """Refuses a table whose log needs other features, before anything is written to it."""
        made = self.make()
        configuration = {name: value}
        DeltaTable.create(
            self.url, made._schema(), partition_by=[*DAY], configuration=configuration
        )
        with pytest.raises(ConfigError, match=why):
            made.check()


class _OnS3(OfDelta):
    """In an object store, by conditional writes."""

    def __init__(self, bucket: Bucket, folder: Path) -> None:
        self._bucket, self._folder = bucket, folder
        self.url = "s3://bucket/a/table"

    def folder(self) -> Path:
        """All objects, put into files."""
        top = self._folder / uuid4().hex
        for name, content in self._bucket.objects.items():
            file = top / name.lstrip("/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        return top / "bucket" / "a" / "table"

    def compact(self) -> None:
        """As a person does."""
        table = DeltaTable(self.url, storage_options={"allow_http": "true"})
        assert table.optimize.compact()["numFilesRemoved"] > 1
        table.create_checkpoint()


def test_an_object_store_is_as_good_as_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers race for each offset and a table is compacted; each entry of the log is new."""
    for test in (
        LakeContract.test_writers_at_once_have_each_offset_once,
        LakeContract.test_compaction_beside_disturbs_nothing,
    ):
        with s3_server() as bucket:
            for name, value in bucket.environment.items():
                monkeypatch.setenv(name, value)
            test(_OnS3(bucket, tmp_path), tmp_path)
            log = {name for name in bucket.objects if re.search(r"_delta_log/\d+\.json\Z", name)}
            assert log
            assert log <= bucket.created


def test_a_store_without_conditional_writes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes could write one entry of the log there."""
    with s3_server(is_careless=True) as bucket:
        for name, value in bucket.environment.items():
            monkeypatch.setenv(name, value)
        described = '[pipeline.p]\nsink = {kind = "delta", url = "s3://bucket/table"}'
        with pytest.raises(ConfigError, match="cannot create objects exclusively"):
            prove(load_settings(), read(described, {})["p"])
        assert not bucket.objects


def test_a_replayed_page_is_added_once(tmp_path: Path) -> None:
    """Adds a replayed page once, however often it is replayed, with its body in the body store."""
    described = f'kind = "delta", url = "{tmp_path}/table", body = "ref"'
    pipeline, bodies = writer.pipeline(described), BodyStore.at(str(tmp_path / "bodies"))
    (page,) = judge(pipeline, writer.batch_of([record(1, body=b"whole")]))
    assert isinstance(page, Wanted)
    for _ in range(2):
        replay(pipeline, page, None, bodies)
    (row,) = DeltaTable(tmp_path / "table").to_pyarrow_table().to_pylist()
    assert row["id"] == page_id(1)
    assert "body" not in row
    assert Path(row["body_ref"].removeprefix("file://")).read_bytes() == b"whole"
