"""Ways to break a law of stores on purpose, to be caught; ``BREAK`` in the environment says how.

A process writes a fixed topic as ``support.pipelines.writer`` does, in segments of ``SEGMENT``
records: to a folder, a table of a lake, or the index of a search server.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from crawlstream.boot import failpoints
from crawlstream.boot.failpoints import failpoint
from crawlstream.bus.records import Batch
from crawlstream.plugins.sinks import Row
from crawlstream.wire import jsontext
from pipeline_service.records.judging import Judged, Wanted
from pipeline_service.sinks.files.claims import Claim, ClaimChain
from pipeline_service.sinks.files.files_sink import FilePart, FilesSink
from pipeline_service.sinks.files.segments import Segment
from pipeline_service.sinks.idempotent import IdempotentRows
from pipeline_service.sinks.lake.table import LakeCommit, LakeTable
from pipeline_service.sinks.search.search_store import SearchStore
from support.pipelines import writer
from support.pipelines.results import record

_write, _load, _finish, _add = (
    FilesSink.write, FilesSink._load, FilesSink._finish, Segment._add,
)  # fmt: skip
_commit = LakeTable.commit
_item, _put = SearchStore._item, IdempotentRows._put


def values() -> Sequence[bytes]:
    """Return the records of the topic, and one with a NUL, which is a page like any other."""
    return [*writer.values(), record(700, body=b"<p>\0</p>")]


_A, _B, _C = (f"http://127.0.0.7:8080/{name}" for name in "abc")
_T0 = 1795251154.0


def visits() -> Sequence[bytes]:
    """Return the records of a topic with the same pages again: newer, older, gone, and back."""
    changes = [
        *({"url": url, "timestamp": _T0} for url in (_A, _B, _C)),
        {"url": _A, "timestamp": _T0 + 20},
        {"url": _A, "timestamp": _T0 + 10},
        {"url": _B, "timestamp": _T0 + 20, "status_code": 410},
        {"url": _B, "timestamp": _T0 + 10},
        {"url": _C, "timestamp": _T0 + 10, "status_code": 404},
        {"url": _C, "timestamp": _T0 + 20},
        {"url": _A, "timestamp": _T0 + 30, "status_code": 500},
    ]
    return [record(number, **each) for number, each in enumerate([*changes, *changes[:3]])]


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
        files = {each.name: each for each in segment.close()}
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


def _without_version(self: SearchStore, row: Row) -> Any:
    """Write whatever comes last, as if there was one version."""
    item = _item(self, row)
    action, _, source = item.lines.partition(b"\n")
    plain = {item.operation: {"_id": item.id}}
    assert jsontext.loads(action)
    return replace(item, lines=jsontext.dumps(plain) + b"\n" + source)


def _never_gone(self: SearchStore, row: Row) -> Any:
    """Delete another document."""
    item = _item(self, row)
    if item.operation != "delete":
        return item
    return replace(item, id="none", lines=item.lines.replace(item.id.encode(), b"none"))


def _put_nothing_once() -> Callable[[IdempotentRows, Sequence[Row]], None]:
    """Write the position, and not the rows that it stands for; once."""
    passes: list[Sequence[Row]] = []

    def put(self: IdempotentRows, rows: Sequence[Row]) -> None:
        passes.append(rows)
        if len(passes) != 1:
            _put(self, rows)

    return put


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
BREAKS_OF_SEARCH: Mapping[str, Callable[[], None]] = {
    "no-versions": lambda: setattr(SearchStore, "_item", _without_version),
    "no-deletes": lambda: setattr(SearchStore, "_item", _never_gone),
    "step-first": lambda: setattr(IdempotentRows, "_put", _put_nothing_once()),
}
"""Broken pipelines that write a search index."""


def described(place: str, which: str, segment: str) -> str:
    """A sink with short segments."""
    limits = f"max_age = 3600, max_records = {segment}"
    if which == "search":
        return f'kind = "search", url = "{place}"'
    if which == "delta":
        return f'kind = "delta", url = "{place}", body = "bytes", {limits}'
    if which == "iceberg":
        named = 'kind = "iceberg", catalog = "test", table = "web.pages"'
        return f'{named}, url = "{place}", body = "bytes", {limits}'
    return f'kind = "files", path = "{place}", format = "{which}", {limits}'


def run(env: Mapping[str, str]) -> None:
    """Be a pipeline that writes to PLACE in the format WHICH, and may break a law."""
    os.environ.update(env)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    failpoints.set_up(env.get("FAILPOINT", ""))
    if name := env.get("BREAK"):
        {**BREAKS, **BREAKS_OF_TABLES, **BREAKS_OF_SEARCH}[name]()
    is_search = env["WHICH"] == "search"
    sink = described(env["PLACE"], env["WHICH"], env["SEGMENT"])
    asked = writer.pipeline(sink, "where = {}" * is_search)
    asyncio.run(writer.write(asked, Path(env["SPOOL"]), visits if is_search else values))
