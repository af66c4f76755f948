"""The reader of archives after chaos: whatever is spoilt in a whole one is found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from crawlstream.store.store import Store
from crawlstream_chaos.pipelines.archive_reader import archive_faults
from support.pipelines import writer
from support.pipelines.archive import files_of
from support.pipelines.results import record

PAGES = 20


def values() -> Sequence[bytes]:
    """Return the records of pages with two payloads."""
    return [
        record(
            number,
            body=b"payload %d " % (number % 2) * 100,
            response_url=f"http://127.0.0.7:8080/{number}",
        )
        for number in range(PAGES)
    ]


def drop_line(_: Path, index: Path) -> None:
    """Leave out a page of an index."""
    index.write_text("".join(index.read_text().splitlines(keepends=True)[1:]))


def move_line(_: Path, index: Path) -> None:
    """Let a line lead to another record."""
    lines = index.read_text().splitlines(keepends=True)
    offset = lines[0].partition('"offset":')[2].partition(",")[0]
    other = lines[1].partition('"offset":')[2].partition(",")[0]
    length = lines[0].partition('"length":')[2].partition(",")[0]
    other_length = lines[1].partition('"length":')[2].partition(",")[0]
    index.write_text(lines[0].replace(offset, other).replace(length, other_length) + lines[1])


def remove_index(_: Path, index: Path) -> None:
    """Remove an index."""
    index.unlink()


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (drop_line, "it lacks http://127.0.0.7:8080/"),
        (move_line, "it has http://127.0.0.7:8080/"),
        (remove_index, "it lacks http://127.0.0.7:8080/"),
    ],
)
async def test_each_fault_of_an_archive_is_found(
    spoil: Callable[[Path, Path], None], expected: str, tmp_path: Path
) -> None:
    """Reports an index that does not lead to each page, and a revisit without its record."""
    sink = f'kind = "files", path = "{tmp_path}/out", format = "warc.gz", max_records = 6'
    asked = writer.pipeline(f"{sink}, max_age = 3600, revisits = {{}}")
    await writer.write(asked, tmp_path / "spool", values)
    folder = Path(asked.place)
    names = sorted(files_of(Store.at(asked.place)))
    assert archive_faults(folder, names) == ([], PAGES - 2)
    assert len(archive_faults(folder, names[1:])[0]) == PAGES - 7
    warc = folder / names[0]
    spoil(warc, warc.with_name(warc.name.replace(".warc.gz", ".cdxj")))
    faults, _ = archive_faults(folder, names)
    assert any(expected in fault for fault in faults), faults
