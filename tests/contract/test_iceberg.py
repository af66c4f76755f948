"""Iceberg tables keep the contract of all; their properties keep positions whatever is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table

from crawlstream.errors import ConfigError, Unavailable
from crawlstream_chaos.pipelines.iceberg_log import live_entries, metadata_of
from pipeline_service.formats.columns import Column
from pipeline_service.records.judging import Wanted, judge
from pipeline_service.sinks.lake.iceberg import IcebergLake
from pipeline_service.sinks.lake.opening import open_table, replay
from pipeline_service.spec.lake import IcebergSpec
from support.pipelines import writer
from support.pipelines.iceberg_files import rows_of_iceberg
from support.pipelines.lake_contract import COLUMNS, DAY, NAME, OTHER, LakeContract, commit_of
from support.pipelines.results import page_id, record

TABLE = "web.pages"


class TestIceberg(LakeContract):
    """A table in a folder whose name has a space, and its catalog in SQLite."""

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path) -> None:
        self.home = tmp_path

    def make(
        self, columns: Sequence[Column] = COLUMNS, *, days: bool = True, migrate: bool = False
    ) -> IcebergLake:
        """As a pipeline has it."""
        spec = IcebergSpec(
            url=str(self.home / "a table"),
            catalog="test",
            table=TABLE,
            partition_by=[*DAY] if days else [],
            migrate=migrate,
            properties=self.properties,
        )
        return IcebergLake(spec, columns=columns)

    def compact(self) -> None:
        """As a person does, and expire the snapshots that positions came with."""
        table = self.table()
        before = len(self.entries())
        table.overwrite(table.scan().to_arrow())
        assert len(self.entries()) < before
        old = [each.snapshot_id for each in table.snapshots()[:-1]]
        table.maintenance.expire_snapshots().by_ids(old).commit()

    def ids(self) -> Sequence[str]:
        """By DuckDB, of the files that the manifests name; the scans of others find as many."""
        found = sorted(name for name, _ in rows_of_iceberg(self.home / "catalog.db", TABLE))
        scanned = self.table().scan(row_filter="date == '2026-11-21'").to_arrow()
        assert sorted(scanned["id"].to_pylist()) == found
        read = self.make().dataset().to_table()
        assert sorted(read["id"].to_pylist()) == found
        assert set(map(str, read["date"].to_pylist())) == {"2026-11-21"}
        return found

    @property
    def properties(self) -> Mapping[str, str]:
        """Entries of the catalog."""
        return {"type": "sql", "uri": f"sqlite:///{self.home}/catalog.db"}

    def catalog(self) -> Catalog:
        """The catalog, as others open it."""
        return load_catalog("test", **self.properties)

    def table(self) -> Table:
        """The table, as others open it."""
        return self.catalog().load_table(TABLE)

    def entries(self) -> Sequence[dict[str, Any]]:
        """The data files that count."""
        metadata = metadata_of(self.home / "catalog.db", TABLE)
        assert metadata is not None
        return live_entries(metadata)

    def test_no_commit_of_another_snapshot_counts(self, tmp_path: Path) -> None:
        """Refuses one of two writers of the same version, in both orders, whatever it allows.

        The library would add the files of the late one: the property of the table is left as it is.
        """
        self.opened()
        assert self.table().properties.get("commit.retry.num-retries") is None
        for number, order in enumerate((False, True)):
            tables = [self.make(), self.make()]
            names = [NAME, OTHER]
            commits = [
                commit_of(table, [f"{number}{name[-1]}"], table.position(name), tmp_path, name=name)
                for table, name in zip(tables, names, strict=True)
            ]
            pairs = list(zip(tables, commits, strict=True))
            loaded = [(table, table._loaded(), commit) for table, commit in pairs]
            (one, first, earlier), (other, second, later) = loaded[::-1] if order else loaded
            one._add(first, earlier)
            with pytest.raises(CommitFailedException):
                other._add(second, later)
            assert other.commit(later)
        assert self.ids() == ["00", "01", "10", "11"]

    def test_a_position_alone_is_fenced_too(self, tmp_path: Path) -> None:
        """A change of properties without a snapshot would replace any position."""
        table = self.make()
        table.open()
        won, late = (commit_of(table, [], None, tmp_path) for _ in range(2))
        loaded = table._loaded()
        assert table.commit(won)
        with pytest.raises(CommitFailedException):
            table._add(loaded, late)
        assert table.position(NAME) == won.position

    def test_many_commits_leave_few_manifests(self, tmp_path: Path) -> None:
        """They are merged, and rows stay; others know files by the bounds of their columns."""
        table, last = self.opened(), None
        with self.table().transaction() as change:
            change.set_properties({"commit.manifest.min-count-to-merge": "3"})
        for number in range(6):
            commit = commit_of(table, [str(number)], last, tmp_path)
            assert table.commit(commit)
            last = commit.position
        newest = self.table().current_snapshot()
        assert newest is not None
        assert len(newest.manifests(self.table().io)) < 3
        assert self.ids() == [*"012345"]
        assert all(each["record_count"] == 1 and each["lower_bounds"] for each in self.entries())
        assert self.table().scan(row_filter="status_code > 200").to_arrow().num_rows == 0

    def test_what_the_sink_cannot_write_is_refused(self) -> None:
        """Each with what to do, before anything is written."""
        self.opened()
        with self.table().transaction() as change:
            change.remove_properties("schema.name-mapping.default")
        with pytest.raises(ConfigError, match="has no property schema"):
            self.make().check()
        newest = Path(self.table().metadata_location.removeprefix("file://"))
        newer = {"format-version": 3, "next-row-id": 0}
        newest.write_bytes(orjson.dumps({**orjson.loads(newest.read_bytes()), **newer}))
        with pytest.raises(ConfigError, match="version 3 of the format"):
            self.make().check()
        (self.home / "a table").rename(self.home / "elsewhere")
        self.catalog().drop_table(TABLE)
        made = str(self.home / "other")
        self.catalog().create_table(TABLE, self.make()._schema, location=made)
        with pytest.raises(ConfigError, match=f'in another folder: set url = "file://{made}"'):
            self.make().open()

    def test_a_catalog_that_cannot_be_is_named(self) -> None:
        """Other errors of a catalog are waited for."""
        spec = IcebergSpec(url=str(self.home / "a table"), catalog="lake", table=TABLE)
        for properties, why in (({}, "lake cannot be used"), ({"type": "sql"}, "URI")):
            with pytest.raises(ConfigError, match=why):
                IcebergLake(replace(spec, properties=properties), columns=COLUMNS).check()
        nowhere = {"type": "sql", "uri": f"sqlite:///{self.home}/missing/catalog.db"}
        with pytest.raises(Unavailable, match="cannot read the Iceberg table"):
            IcebergLake(replace(spec, properties=nowhere), columns=COLUMNS).check()


def test_a_replayed_page_with_all_its_columns_is_there_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Adds a replayed page once, however often it is replayed, with its lists and maps."""
    monkeypatch.setenv("CATALOG", str(tmp_path / "catalog.db"))
    described = f'kind = "iceberg", catalog = "test", table = "{TABLE}", url = "{tmp_path}/table"'
    pipeline = writer.pipeline(described)
    (page,) = judge(pipeline, writer.batch_of([record(1)]))
    assert isinstance(page, Wanted)
    for _ in range(2):
        replay(pipeline, page, None, None)
    (row,) = open_table(pipeline, None).dataset().to_table().to_pylist()
    assert (row["id"], str(row["date"])) == (page_id(1), "2026-11-21")
    assert rows_of_iceberg(tmp_path / "catalog.db", TABLE) == [(page_id(1), b"")]
