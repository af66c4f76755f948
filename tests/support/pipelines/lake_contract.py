"""Guarantees of every table of a lake, as tests: positions and files change together, or not."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from crawlstream.errors import ConfigError, Unavailable
from pipeline_service.formats.columns import Column, ColumnType
from pipeline_service.formats.files import Crawl, make_writer
from pipeline_service.sinks.lake.table import LakeCommit, LakeFile, LakePosition, LakeTable

NAME, OTHER = "crawlstream/p/1/5f0c2e9a/00000", "crawlstream/p/1/5f0c2e9a/00001"
_WRITERS, _COMMITS = 3, 8
DAY = {"date": "2026-11-21"}


def column(name: str, kind: ColumnType = ColumnType.TEXT) -> Column:
    """A column that takes its value from a mapping."""
    return Column(name, kind, "", lambda row: row.get(name))


COLUMNS = (column("id"), column("status_code", ColumnType.WHOLE))


class LakeContract:
    """Tests of a table; a subclass says how one is opened, compacted and read."""

    def make(
        self, columns: Sequence[Column] = COLUMNS, *, days: bool = True, migrate: bool = False
    ) -> LakeTable[Any]:
        """The table, as another process opens it; partitioned by ``date`` or not."""
        raise NotImplementedError

    def compact(self) -> None:
        """Rewrite the table's files into fewer, as any other program does."""
        raise NotImplementedError

    def ids(self) -> Sequence[str]:
        """The ids of all rows, read without the library that writes them."""
        raise NotImplementedError

    def opened(self) -> LakeTable[Any]:
        """The table, made where there is none."""
        table = self.make()
        table.open()
        return table

    def test_files_and_position_change_together(self, tmp_path: Path) -> None:
        """Another process sees both, and a commit without files moves the position, too."""
        table = self.opened()
        assert table.position(NAME) is None
        first = commit_of(table, ["a", "b"], None, tmp_path)
        assert table.commit(first)
        assert self.make().position(NAME) == first.position
        second = commit_of(table, [], first.position, tmp_path)
        assert table.commit(second)
        assert self.make().position(NAME) == second.position
        assert self.make().position(OTHER) is None
        assert self.ids() == ["a", "b"]

    def test_a_late_commit_changes_nothing(self, tmp_path: Path) -> None:
        """Its writer has loaded the table before, or after, the commit of the other one."""
        early, late, new = self.opened(), self.opened(), self.make()
        assert late.position(NAME) is None
        won = commit_of(early, ["a"], None, tmp_path)
        assert early.commit(won)
        for table in (late, new):
            assert not table.commit(commit_of(table, ["a"], None, tmp_path))
        assert self.make().position(NAME) == won.position
        assert self.ids() == ["a"]

    def test_a_lost_answer_is_recognized(self, tmp_path: Path) -> None:
        """A commit that is repeated is there once; its files stay when others have gone on."""
        one, other = self.opened(), self.make()
        first = commit_of(one, ["a"], None, tmp_path)
        assert one.commit(first)
        assert one.commit(first)
        assert other.commit(commit_of(other, ["b"], first.position, tmp_path))
        assert not one.commit(first)
        assert self.ids() == ["a", "b"]

    def test_partitions_do_not_disturb_each_other(self, tmp_path: Path) -> None:
        """Their writers have loaded the same version."""
        one, other = self.opened(), self.opened()
        assert one.position(NAME) is other.position(OTHER) is None
        assert one.commit(commit_of(one, ["a"], None, tmp_path))
        assert other.commit(commit_of(other, ["b"], None, tmp_path, name=OTHER))
        assert self.ids() == ["a", "b"]

    def test_writers_at_once_have_each_offset_once(self, tmp_path: Path) -> None:
        """Each commits behind the position that it reads, until all offsets are there."""
        self.opened()

        def write(_: int) -> None:
            table = self.make()
            while (last := table.position(NAME)) is None or last.next < _COMMITS:
                number = 0 if last is None else last.next
                table.commit(commit_of(table, [f"{number:03}"], last, tmp_path))

        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(write, range(_WRITERS)))
        assert self.ids() == [f"{number:03}" for number in range(_COMMITS)]

    def test_compaction_beside_disturbs_nothing(self, tmp_path: Path) -> None:
        """It comes between two commits of a writer, and positions outlast it."""
        table, last = self.opened(), None
        for name in "abc":
            commit = commit_of(table, [name], last, tmp_path)
            assert table.commit(commit)
            last = commit.position
        self.compact()
        assert self.make().position(NAME) == last
        assert table.commit(commit_of(table, ["d"], last, tmp_path))
        assert self.ids() == [*"abcd"]

    def test_a_table_gets_new_columns_only_if_that_is_wanted(self, tmp_path: Path) -> None:
        """Else the pipeline is refused, by the check before as well; old rows stay."""
        old = self.opened()
        done = commit_of(old, ["a"], None, tmp_path)
        assert old.commit(done)
        more = (*COLUMNS, column("title"))
        for does in (self.make(more).check, self.make(more).open):
            with pytest.raises(ConfigError, match=r"lacks the columns title: set migrate = true"):
                does()
        new = self.make(more, migrate=True)
        new.check()
        new.open()
        assert new.commit(commit_of(new, ["b"], done.position, tmp_path, columns=more))
        assert self.ids() == ["a", "b"]

    def test_a_table_of_another_kind_is_refused(self) -> None:
        """By its partitions, and by the type of a column, with what to do."""
        self.opened()
        with pytest.raises(ConfigError, match=r'partitioned by \["date"\]: set partition_by = '):
            self.make(days=False).open()
        with pytest.raises(ConfigError, match=r"the column id of the .* name another url"):
            self.make([column("id", ColumnType.WHOLE)]).check()

    def test_a_check_leaves_nothing(self) -> None:
        """Neither a table nor a file."""
        table = self.make()
        table.check()
        assert table.position(NAME) is None
        assert not table.files.list()

    def test_a_commit_makes_no_table(self, tmp_path: Path) -> None:
        """A missing table is waited for: perhaps its disk is not mounted."""
        table = self.make()
        with pytest.raises(Unavailable):
            table.commit(commit_of(table, ["a"], None, tmp_path))
        assert self.make().position(NAME) is None


def commit_of(
    table: LakeTable[Any],
    ids: Sequence[str],
    expected: LakePosition | None,
    folder: Path,
    *,
    name: str = NAME,
    columns: Sequence[Column] = COLUMNS,
) -> LakeCommit:
    """A commit of one file with these rows, which moves the position by one."""
    position = LakePosition.new(1 if expected is None else expected.next + 1)
    files = [file_of(table, ids, folder, columns)] if ids else []
    return LakeCommit(
        name=name, expected=expected, position=position, files=files, about={"segment": "1"}
    )


def file_of(
    table: LakeTable[Any], ids: Sequence[str], folder: Path, columns: Sequence[Column] = COLUMNS
) -> LakeFile:
    """A file of the table's folder."""
    content = BytesIO()
    writer = make_writer("parquet", content, Crawl(""), columns)
    for each in ids:
        writer.write(b"", {"id": each, "status_code": 200})
    writer.close()
    path = folder / f"{uuid4().hex}.parquet"
    path.write_bytes(content.getvalue())
    name = f"data/{path.name}"
    table.files.put(name, path)
    return LakeFile(name=name, path=path, size=path.stat().st_size, values=DAY)
