"""A file of SQLite that several make at once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from pipeline_service.sinks.sql.sqlite import Sqlite

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
