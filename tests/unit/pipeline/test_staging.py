"""Staging: the stages of a pipeline between what was read and what is stored."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.bus.records import Batch, Record
from crawlstream_extract.workers import frames
from pipeline_service.formats.files import Crawl
from pipeline_service.records.judging import Judged, Repeat, Undeliverable, Wanted, judge
from pipeline_service.sinks.files.repeats import Repeats
from pipeline_service.sinks.files.segments import Segment, Spool
from pipeline_service.spec.config import Pipeline, read
from pipeline_service.spec.files_spec import FilesSpec
from pipeline_service.staging import Staging
from support.pipelines.results import page_id, record


def pipeline(call: str, more: str = "") -> Pipeline:
    """Return a pipeline with a function of the shop, in a thread."""
    text = f"""
[pipeline.a]
workers = 0
stage = [{{use = "python:support.pipelines.shop:{call}"}}]
{more}
[pipeline.a.sink]
kind = "files"
path = "/x"
format = "jsonl"
"""
    return read(text, {}, Path())["a"]


async def staged(
    described: Pipeline, bodies: Iterable[tuple[int, bytes]], known: Sequence[int] = ()
) -> Sequence[Judged]:
    """Return the results of pages, by number and body."""
    values = [record(number, body=body) for number, body in bodies]
    records = [Record("t", 0, n, 1, key=None, value=value) for n, value in enumerate(values)]
    ids = {page_id(number) for number in known}
    staging = Staging(described)
    await staging.open()
    try:
        batch = Batch("id", 0, 0, len(records), records)
        return await staging.run(judge(described, batch), lambda _: None, ids.__contains__)
    finally:
        await staging.close()


async def test_what_comes_again_is_no_work_for_stages() -> None:
    """Does not run stages for repeats, in one batch or known: the first outcome stays."""
    pages = [(1, b"raise"), (1, b"fine"), (2, b"fine"), (2, b"raise"), (3, b"raise")]
    judged = await staged(pipeline("by_body"), pages, known=[3])
    assert [each.reason for each in judged] == ["stage_failed", "", "", "", ""]
    assert [*map(type, judged)] == [Undeliverable, Repeat, Wanted, Repeat, Repeat]
    assert [each.id for each in judged] == [page_id(n) for n in (1, 1, 2, 2, 3)]


async def test_an_undelivered_page_that_comes_again_is_a_repeat(tmp_path: Path) -> None:
    """Counts an undelivered page that comes again as a repeat: done = read - repeats holds."""
    described = pipeline("by_body")
    assert isinstance(described.sink, FilesSpec)
    spool = Spool(tmp_path)
    try:
        for known in (Repeats(10), Repeats(0)):
            segment = Segment(
                *(0,), sink=described.sink, spool=spool, known=known, crawl=Crawl("test")
            )
            for _ in range(2):
                judged = await staged(described, [(1, b"raise"), (1, b"fine")])
                segment.add(judged, 2)
            told = segment.account.total
            assert (told.read, told.repeats, dict(told.undelivered)) == (4, 3, {"stage_failed": 1})
            assert told.is_closed
            segment.drop()
    finally:
        spool.close()


@pytest.mark.parametrize("body", [b"raise", b"quit", b"1"])
async def test_what_was_judged_by_itself_is_judged_again(body: bytes) -> None:
    """A second chance is one, though the page has been here before."""
    staging = Staging(described := pipeline("by_body"))
    await staging.open()
    batch = Batch("id", 0, 0, 1, [Record("t", 0, 0, 1, key=None, value=record(1, body=body))])
    (judged,) = judge(described, batch)
    for _ in range(2):
        after = await staging.run_one(judged)
        assert type(after) is (Wanted if body == b"1" else Undeliverable)


@given(st.lists(st.binary(max_size=300), max_size=40))
def test_records_reach_a_worker_as_they_are(values: list[bytes]) -> None:
    """Sends records to a worker in one message, however many and large they are."""
    message = frames.pack_values(values)
    (size,) = frames.LENGTH.unpack(message[: frames.LENGTH.size])
    assert size == len(message) - frames.LENGTH.size
    assert frames.unpack(message[frames.LENGTH.size :]) == values
