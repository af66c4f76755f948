"""A file of SQLite that several make at once."""

from __future__ import annotations

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.plugins.sinks import Change
from pipeline_service.records.judging import judge
from pipeline_service.sinks.sink import PageSink
from pipeline_service.sinks.sql.sqlite import Sqlite
from pipeline_service.sinks.sql.store import SqlStore
from support.pipelines import writer
from support.pipelines.results import record

THREADS = 8


def test_a_file_that_others_are_just_making_is_waited_for(tmp_path: Path) -> None:
    """SQLite itself refuses at once to change how a file is written while another does so."""
    together = Barrier(THREADS)

    def open_(number: int) -> None:
        store = Sqlite(f"sqlite:///{tmp_path / f'{number}.db'}")
        together.wait()
        store.open()
        store.close()

    with ThreadPoolExecutor(THREADS) as threads:
        for number in range(30):
            for opened in [threads.submit(open_, number) for _ in range(THREADS)]:
                opened.result()


async def test_a_partition_that_is_taken_over_amid_a_trial_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ends the search for a refused row when another process writes, and reads on where that is."""
    file = tmp_path / "pages.db"
    asked = writer.pipeline(f'kind = "sql", url = "sqlite:///{file}"')
    loop = asyncio.get_running_loop()
    taken_over: list[bool] = []

    async def take_over(others: PageSink) -> None:
        assert await others.position(writer.TOPIC, 0) == 5
        batch = writer.batch_of([record(n) for n in range(5, 8)], 5)
        assert await others.write(batch, judge(asked, batch), Liveness("others")) is None

    async with (
        writer.sink_of(asked, tmp_path / "a") as ours,
        writer.sink_of(asked, tmp_path / "b") as others,
    ):
        first = writer.batch_of([record(n) for n in range(5)])
        assert await ours.position(writer.TOPIC, 0) in (None, 0)
        assert await ours.write(first, judge(asked, first), Liveness("ours")) is None
        with sqlite3.connect(file) as database:
            database.execute(
                "create trigger mine before insert on pages when new.url like '%bad%'"
                " begin select raise(abort, 'mine'); end"
            )
        write = SqlStore.write

        def write_after_the_others(store: SqlStore, change: Change) -> bool:
            if not taken_over and len(change.rows) == 10:
                taken_over.append(True)
                asyncio.run_coroutine_threadsafe(take_over(others), loop).result(20)
            return write(store, change)

        monkeypatch.setattr(SqlStore, "write", write_after_the_others)
        values = [record(n) for n in range(5, 25)]
        values[7] = record(12, url="http://127.0.0.7:8080/bad")
        batch = writer.batch_of(values, 5)
        async with asyncio.timeout(30):
            assert await ours.write(batch, judge(asked, batch), Liveness("ours")) == 8
    assert taken_over
