"""``archive verify``: finds each fault of an archive, and none in one that is whole."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import Batch
from pipeline_service.__main__ import main
from pipeline_service.records.judging import judge
from pipeline_service.spec.config import load
from support.pipelines import writer
from support.pipelines.results import record

START = 1795251154.0
MEMBER = b"\x1f\x8b\x08"


@dataclass(frozen=True)
class Archive:
    """An archive of a pipeline, and the commands about it."""

    folder: Path
    capsys: pytest.CaptureFixture[str]

    @property
    def warcs(self) -> list[Path]:
        """Return its files: three of the partition 0, three of the partition 1."""
        return sorted(self.folder.glob("date=*/*.warc.gz"))

    def run(self, *command: str) -> tuple[int, list[str]]:
        """Run a command; return its exit code and the lines that it prints."""
        code = main(["archive", *command])
        said = self.capsys.readouterr()
        return code, (said.out + said.err).splitlines()

    def problems(self) -> list[tuple[str, str]]:
        """Return where the check finds which problems."""
        code, lines = self.run("verify", "p", "--json")
        told = json.loads(lines[-1])
        found = [(each["where"], each["what"]) for each in told["first_problems"]]
        assert (code, told["problems"]) == (1, len(found))
        return found


@pytest.fixture
async def archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Archive:
    """Return an archive whose 40 pages have five payloads."""
    file = tmp_path / "pipelines.toml"
    file.write_text(
        '[pipeline.p.sink]\nkind = "files"\npath = "out"\nformat = "warc.gz"\nmax_records = 6\n'
        'revisits = {}\n[pipeline.lines]\nsink = {kind = "files", path = "out"}\n'
    )
    monkeypatch.setenv("CRAWLSTREAM_PIPELINES", str(file))
    asked, live = load(file, {})["p"], Liveness("write")
    for partition in (0, 1):
        pages = [
            record(
                n + 100 * partition,
                body=b"payload %d " % (n % 5) * 100,
                response_url=f"http://127.0.0.7:8080/{n}",
                timestamp=START + n + 100 * partition,
            )
            for n in range(20)
        ]
        async with writer.sink_of(asked, tmp_path / "spool") as sink:
            await sink.position(writer.TOPIC, partition)
            made = writer.batch_of(pages).records
            batch = Batch(writer.TOPIC, partition, 0, len(made), made)
            for part in batch.chunks(7):
                assert await sink.write(part, judge(asked, part), live) is None
    capsys.readouterr()  # Drop the log of the writer.
    return Archive(tmp_path / "out" / "p" / "edition=1", capsys)


def test_a_whole_archive_has_no_problem(archive: Archive) -> None:
    """Prints what there is; `list` has the same numbers without reading the files."""
    size = sum(file.stat().st_size for file in archive.warcs)
    code, lines = archive.run("verify", "p")
    assert code == 0
    assert lines[1:] == [
        f"40 pages, of which 35 revisits, in 6 files of 6 segments, {size / 1e6:.1f} MB",
        "No problem found.",
    ]
    code, lines = archive.run("list", "--json")
    told = json.loads(lines[0])
    assert (code, len(lines), told["files"], told["bytes"]) == (0, 1, 6, size)
    assert (told["pages"], told["revisits"], told["bytes_saved"]) == (40, 35, 35 * 1000)


def test_only_archives_can_be_verified(archive: Archive) -> None:
    """Says which pipelines can be."""
    code, lines = archive.run("verify", "lines")
    assert code == 2
    assert 'only format = "warc.gz" can be verified' in lines[0]
    code, lines = archive.run("verify")
    assert code == 2
    assert "see `archive list`" in lines[0]


def swap(file: Path, change: Callable[[bytes], bytes], member: int) -> None:
    """Change the record of a file, which is compressed again."""
    parts = [MEMBER + each for each in file.read_bytes().split(MEMBER)[1:]]
    parts[member] = gzip.compress(change(gzip.decompress(parts[member])), mtime=0)
    file.write_bytes(b"".join(parts))


def remove_response(archive: Archive) -> None:
    """Remove the first file, which has all payloads."""
    archive.warcs[0].unlink()


def change_body(archive: Archive) -> None:
    """Change a byte of a payload."""
    swap(archive.warcs[0], lambda data: data.replace(b"payload 0", b"payload 9", 1), 1)


def refer_elsewhere(archive: Archive) -> None:
    """Change the URL that a revisit refers to."""
    old, new = b"Refers-To-Target-URI: http://127.0.0.7:8080/", b"Refers-To-Target-URI: http://x/"
    swap(archive.warcs[2], lambda data: data.replace(old, new), 1)


def refer_to_another(archive: Archive) -> None:
    """Let a revisit refer to a record with another payload."""
    swap(
        archive.warcs[2],
        lambda data: data.replace(
            b"8080/4\r\nWARC-Refers-To-Date: 2026-11-21T08:52:38",
            b"8080/3\r\nWARC-Refers-To-Date: 2026-11-21T08:52:37",
        ),
        1,
    )


def cut_file(archive: Archive) -> None:
    """Cut the end of a file."""
    file = archive.warcs[0]
    file.write_bytes(file.read_bytes()[:-10])


def drop_metadata(archive: Archive) -> None:
    """Leave out the last record of a file."""
    file = archive.warcs[0]
    file.write_bytes(file.read_bytes().rpartition(MEMBER)[0])


def remove_index(archive: Archive) -> None:
    """Remove an index."""
    archive.warcs[0].with_name(archive.warcs[0].name.replace(".warc.gz", ".cdxj")).unlink()


def turn_index(archive: Archive) -> None:
    """Turn the lines of an index round."""
    (file, *_) = sorted(archive.folder.glob("date=*/*.cdxj"))
    file.write_bytes(b"".join(reversed(file.read_bytes().splitlines(keepends=True))))


def mix_up_indexes(archive: Archive) -> None:
    """Let a file have the index of another one."""
    one, other, *_ = sorted(archive.folder.glob("date=*/*.cdxj"))
    shutil.copy(other, one)


def add_file(archive: Archive) -> None:
    """Add a file that no pipeline has written."""
    shutil.copy(archive.warcs[0], archive.warcs[0].with_name("copy.warc.gz"))


def remove_segment(archive: Archive) -> None:
    """Remove the claim, the account and the file of a segment in the midst of a partition."""
    for file in archive.folder.glob("_log/*-00000/*0007.*"):
        file.unlink()
    archive.warcs[1].unlink()


def change_account(archive: Archive) -> None:
    """Count a page more."""
    (file,) = archive.folder.glob("_log/*-00000/*0014.done.json")
    told: dict[str, Any] = json.loads(file.read_bytes())
    told["total"]["delivered"] += 1
    file.write_text(json.dumps(told))


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (
            remove_response,
            {
                "00000.warc.gz": "it is missing",
                "segment": "its account has 7 pages, and its files 0",
                "14.warc.gz": "the record that it refers to is missing",
            },
        ),
        (
            change_body,
            {
                "00000.warc.gz at": "its block is not that of WARC-Block-Digest",
                "00000.warc.gz": "its sha256 is",
            },
        ),
        (refer_elsewhere, {"14.warc.gz at": "the record that it refers to is missing"}),
        (refer_to_another, {"14.warc.gz at": "the record that it refers to has another payload"}),
        (cut_file, {"00000.warc.gz": "cannot be read: the file ends in it"}),
        (drop_metadata, {"00000.warc.gz at": "its page has no request, or no metadata"}),
        (remove_index, {"00000.cdxj": "it is missing"}),
        (turn_index, {"00000.cdxj": "its line 2 is not in order"}),
        (mix_up_indexes, {"00000.cdxj": "it names other records than those of its file"}),
        (add_file, {"copy.warc.gz": "it belongs to no segment"}),
        (remove_segment, {"segment": "the segment before ends at 7"}),
        (change_account, {"segment": "its account has 7 pages, and its files 6"}),
    ],
)
def test_each_fault_is_found(
    archive: Archive, spoil: Callable[[Archive], None], expected: Mapping[str, str]
) -> None:
    """Names the file, with the place in it, or the segment, and what is wrong."""
    spoil(archive)
    found = archive.problems()
    for where, what in expected.items():
        assert any(where in one and what in other for one, other in found), (where, found)
    assert archive.run("verify", "p")[0] == 1


def test_a_page_that_is_there_twice_is_found(archive: Archive) -> None:
    """Also if it is in two files that belong to segments."""
    one, *_, other = archive.warcs
    shutil.copy(one, other)
    assert any(what == "its page is there twice" for _, what in archive.problems())
