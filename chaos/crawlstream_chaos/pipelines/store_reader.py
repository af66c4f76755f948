"""Reads the store of a pipeline from the disk, as its users do: files by their endings, JSON."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import zstandard
from pyarrow import parquet

from crawlstream_chaos.facts.stored import ClaimedSegment, Stored
from crawlstream_chaos.pipelines.archive_reader import archive_faults

_LOG = "_log"
_CLAIM = re.compile(r"\d{20}\.json\Z")
_DONE = ".done.json"
_LENGTH = re.compile(rb"^Content-Length: (\d+)\r$", re.MULTILINE)
_WARC_ID = re.compile(rb"^WARC-Record-ID: <urn:uuid:([0-9a-f-]+)>\r$", re.MULTILINE)
_ANSWER = re.compile(rb"^WARC-Type: (response|revisit)\r$", re.MULTILINE)
_DROPPED = re.compile(rb"^WARC-Type: metadata\r$", re.MULTILINE)
_BESIDE = re.compile(rb"^WARC-Concurrent-To: ", re.MULTILINE)


class StoreReader:
    """Reads what one pipeline has stored; what it has read once, it reads again if it changed."""

    def __init__(
        self, pipeline: str, folder: Path, *, statuses: Collection[int] = range(1000)
    ) -> None:
        self.pipeline = pipeline
        self._folder = folder
        self._statuses = statuses
        self._known: dict[Path, tuple[tuple[int, int], Sequence[tuple[str, bool]]]] = {}
        self._judged: set[str] = set()

    def read(self, source: Mapping[int, int]) -> Stored:
        """All of it; ``source``: where each partition of the topic ends."""
        files = {name: self._pages(self._folder / name) for name in self._files()}
        segments = self._segments()
        noted = [name for each in segments for name in each.files or () if name in files]
        faults, revisits = archive_faults(self._folder, noted)
        return Stored(
            pipeline=self.pipeline,
            statuses=self._statuses,
            pages={name: [page for page, _ in pages] for name, pages in files.items()},
            bodies=frozenset(page for pages in files.values() for page, has in pages if has),
            judged=frozenset(self._judged),
            segments=segments,
            faults=faults,
            revisits=revisits,
            source=source,
        )

    def forget(self, stored: Stored) -> None:
        """Forget pages that were judged."""
        self._judged.update(each for ids in stored.pages.values() for each in ids)

    def has_stored(self, source: Mapping[int, int]) -> bool:
        """Return whether all partitions are in the store up to these offsets."""
        ends = {int(chain.name.rpartition("-")[2]): _end_of(chain) for chain in self._chains()}
        return all(ends.get(number, 0) >= end for number, end in source.items())

    def _segments(self) -> Sequence[ClaimedSegment]:
        return [segment for chain in self._chains() for segment in _segments(chain)]

    def _chains(self) -> Sequence[Path]:
        found = (self._folder / _LOG).glob("*-*")
        return sorted(chain for chain in found if chain.is_dir())

    def _files(self) -> Sequence[str]:
        found = (path for path in self._folder.rglob("*") if path.is_file())
        names = (
            path.relative_to(self._folder)
            for path in found
            if path.suffix not in (".part", ".cdxj")
        )
        return sorted(str(n) for n in names if n.parts[0] != _LOG and not n.name.startswith("."))

    def _pages(self, file: Path) -> Sequence[tuple[str, bool]]:
        """Return the id of each page of a file, and whether its body is there."""
        told = file.stat()
        stamp = told.st_mtime_ns, told.st_size
        if file not in self._known or self._known[file][0] != stamp:
            self._known[file] = stamp, list(_pages_in(file))
        return self._known[file][1]


def _pages_in(file: Path) -> Iterator[tuple[str, bool]]:
    """Yield the pages of a file, as often as they are in it."""
    if file.name.endswith(".jsonl.zst"):
        with file.open("rb") as packed, zstandard.ZstdDecompressor().stream_reader(packed) as lines:
            pages = map(json.loads, lines.read().splitlines())
            yield from ((str(page["id"]), bool(page["body"])) for page in pages)
    elif file.suffix == ".parquet":
        rows = parquet.read_table(file, columns=["id", "body"]).to_pylist()
        yield from ((row["id"], bool(row["body"])) for row in rows)
    else:
        yield from _warc_pages(gzip.decompress(file.read_bytes()))


def _warc_pages(content: bytes) -> Iterator[tuple[str, bool]]:
    at = 0
    while at < len(content):
        end = content.index(b"\r\n\r\n", at)
        head = content[at : end + 2]
        length, name = _LENGTH.search(head), _WARC_ID.search(head)
        assert length is not None
        is_answer = _ANSWER.search(head) is not None
        if name and (is_answer or (_DROPPED.search(head) and not _BESIDE.search(head))):
            yield name[1].decode().replace("-", ""), is_answer
        at = end + 4 + int(length[1]) + 4


def _segments(chain: Path) -> Iterator[ClaimedSegment]:
    partition = int(chain.name.rpartition("-")[2])
    for file in sorted(path for path in chain.iterdir() if _CLAIM.match(path.name)):
        claim: Any = json.loads(file.read_bytes())
        done = file.with_name(file.name.removesuffix(".json") + _DONE)
        told: Any = json.loads(done.read_bytes()) if done.exists() else {}
        files = {name: about["rows"] for name, about in told["files"].items()} if told else None
        yield ClaimedSegment(
            partition=partition,
            start=claim["start"],
            next=claim["next"],
            files=files,
            account={name: told[name] for name in ("total", "runs") if name in told},
        )


def _end_of(chain: Path) -> int:
    """Offset behind the last segment that is finished."""
    last = max((path.name for path in chain.glob(f"*{_DONE}")), default="")
    return int(json.loads((chain / last).read_bytes())["next"]) if last else 0
