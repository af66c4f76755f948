"""Ways to break a law of stores on purpose, to be caught; ``BREAK`` in the environment says how.

    python -m chaos.broken_pipeline URL FORMAT

writes a fixed topic as ``support.pipelines.writer`` does, in segments of ``SEGMENT`` records; into
a Delta table where FORMAT is ``delta``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.records import Batch
from crawlstream.wire import jsontext
from pipeline_service.records.judging import Judged, Wanted
from pipeline_service.sinks.files.claims import Claim, ClaimChain
from pipeline_service.sinks.files.files_sink import FilePart, FilesSink
from pipeline_service.sinks.files.segments import Segment
from pipeline_service.sinks.lake.table import LakeCommit, LakeTable
from support.pipelines import writer
from support.pipelines.results import record

_write, _load, _finish, _add = (
    FilesSink.write, FilesSink._load, FilesSink._finish, Segment._add,
)  # fmt: skip
_commit = LakeTable.commit


def values() -> Sequence[bytes]:
    """Return the records of the topic, and one with a NUL, which is a page like any other."""
    return [*writer.values(), record(700, body=b"<p>\0</p>")]


def _noted() -> Path:
    return Path(os.environ["SPOOL"]).with_name("committed")


async def _commit_first(self: FilesSink, batch: Batch, *rest: Any) -> int | None:
    """Note that a batch is done with when it was read."""
    _noted().write_bytes(jsontext.dumps(batch.next))
    return await _write(self, batch, *rest)


async def _go_on_there(self: FilesSink, part: FilePart, topic_id: str) -> None:
    """Begin where that says, wherever the store is."""
    await _load(self, part, topic_id)
    if _noted().exists():
        part.next = part.durable = int(str(jsontext.loads(_noted().read_bytes())))
        part.redo = None


async def _put_first(self: FilesSink, part: FilePart, why: str, live: Any) -> int | None:
    """Put the files before the owner of the partition is queried."""
    segment, chain = part.segment, part.chain
    assert segment is not None
    assert chain is not None
    if part.redo is None:
        files = {self._named(chain, segment.start, each): each for each in segment.close()}
        claim = Claim(start=segment.start, next=segment.next, previous=None, files=sorted(files))
        setattr(segment, "close", lambda: list(files.values()))  # noqa: B010  closed once
        failpoint("before_put")
        await self._put(claim, files, live)
    return await _finish(self, part, why, live)


def _claim_anyway(_self: ClaimChain, _claim: Claim) -> bool:
    """Take a partition that another process has claimed."""
    return True


def _drop_nul(self: Segment, judged: Judged) -> None:
    """Leave out records that are hard to store, without a report."""
    if not isinstance(judged, Wanted) or b"\0" not in judged.page.body:
        _add(self, judged)


def _break_commits() -> None:
    setattr(FilesSink, "write", _commit_first)  # noqa: B010  mypy allows no assignment
    setattr(FilesSink, "_load", _go_on_there)  # noqa: B010


def _append_anyway(self: LakeTable[Any], commit: LakeCommit) -> bool:
    """Commit behind whatever position the table has."""
    return _commit(self, replace(commit, expected=self.position(commit.name)))


BREAKS: Mapping[str, Callable[[], None]] = {
    "commit-first": _break_commits,
    "put-first": lambda: setattr(FilesSink, "_finish", _put_first),
    "claim-anyway": lambda: setattr(ClaimChain, "claim", _claim_anyway),
    "drop-nul": lambda: setattr(Segment, "_add", _drop_nul),
}
"""Broken pipelines by law: each does one thing that it must not do."""
BREAKS_OF_TABLES: Mapping[str, Callable[[], None]] = {
    "append-anyway": lambda: setattr(LakeTable, "commit", _append_anyway),
}
"""Broken pipelines that write a table."""


def described(place: str, which: str, segment: str) -> str:
    """A sink with short segments."""
    limits = f"max_age = 3600, max_records = {segment}"
    if which == "delta":
        return f'kind = "delta", url = "{place}", body = "bytes", {limits}'
    return f'kind = "files", path = "{place}", format = "{which}", {limits}'


if __name__ == "__main__":
    if name := os.environ.get("BREAK"):
        {**BREAKS, **BREAKS_OF_TABLES}[name]()
    asked = writer.pipeline(described(sys.argv[1], sys.argv[2], os.environ["SEGMENT"]))
    asyncio.run(writer.write(asked, Path(os.environ["SPOOL"]), values))
