"""Promises of every sink, despite any deaths: each page once, the account closed."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.records import OutOfRange
from crawlstream.wire.delivered import decode
from pipeline_service.records.judging import judge
from pipeline_service.sinks.sink import PageSink
from pipeline_service.spec.config import Pipeline
from support.pipelines import writer
from support.pipelines.pages import HOSTILE
from support.pipelines.results import page_id, record
from support.pipelines.targets import Target, select
from support.waiting import WaitUntil

KINDS = (
    *("file", "objects", "delta", "iceberg", "sqlite", "postgresql"),
    *("kafka", "redis", "keyed", "search"),
)
"""``redis`` is the example of ``docs/sinks.md``; the two after it have no transactions."""
FORMATS = tuple(f"file/{which}" for which in ("jsonl.gz", "jsonl.zst", "warc.gz", "parquet"))
WITHOUT_BODIES = ("delta", "iceberg", "sqlite", "postgresql")
"""Bodies are left out there unless the file of the pipelines says so."""
MakeTarget = Callable[..., Target]


@pytest.fixture(params=KINDS)
def target(request: pytest.FixtureRequest, make_target: MakeTarget) -> Target:
    """An empty store of each kind."""
    return make_target(request.param)


async def carry(target: Target, records: Sequence[bytes], start: int = 0, more: str = "") -> None:
    """Write records by a sink that has just begun, and end it in order."""
    asked = writer.pipeline(target.sink, more)
    async with writer.sink_of(asked, target.spool) as sink:
        assert await sink.position(writer.TOPIC, 0) in (None, start)
        assert await put(sink, asked, records, start) is None


async def put(
    sink: PageSink, asked: Pipeline, records: Sequence[bytes], start: int = 0
) -> int | None:
    """Write records from an offset on."""
    batch = writer.batch_of(records, start)
    return await sink.write(batch, judge(asked, batch), Liveness("write"))


def test_a_writer_that_is_killed_is_followed_by_another(target: Target) -> None:
    """Continues after a writer that was killed at any step, and writes each page once."""
    for at in (*(f"{step}:kill:{nth}" for nth in (1, 2) for step in target.steps), ""):
        with target.start(at) as process:
            assert process.wait() == (-signal.SIGKILL if at else 0), at
    target.assert_all_is_there_once()


@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS[1:])
async def test_a_writer_that_was_frozen_changes_nothing(
    kind: str, step: int, make_target: MakeTarget, wait_until: WaitUntil
) -> None:
    """Others have done its work meanwhile: it is refused, or writes the same once more.

    In the midst of a transaction, SQLite has others wait for it, and PostgreSQL ends it.
    """
    target = make_target(kind)
    with target.start(f"{target.steps[step]}:stop:2") as frozen:
        await wait_until(lambda: frozen.is_frozen, timeout_s=240)
        with target.start() as process:
            if (kind, target.steps[step]) != ("sqlite", "in_write"):
                assert process.wait() == 0
                target.assert_all_is_there_once()
            frozen.thaw()
            assert frozen.wait() == process.wait() == 0
    target.assert_all_is_there_once()


def test_two_writers_at_once_have_each_page_once(target: Target) -> None:
    """Each writes what it can, and gives way where the other was first."""
    with target.start() as one, target.start() as other:
        assert one.wait() == other.wait() == 0
    target.assert_all_is_there_once()


async def test_a_first_batch_that_came_to_nothing_is_written_again(target: Target) -> None:
    """Another one has taken over before anything was stored, and has written nothing either."""
    asked = writer.pipeline(target.sink)
    async with (
        writer.sink_of(asked, target.spool) as one,
        writer.sink_of(asked, target.home / "other") as other,
    ):
        assert await one.position(writer.TOPIC, 0) is None
        assert await other.position(writer.TOPIC, 0) is None
        if (elsewhere := await put(one, asked, [record(1)], 5)) is not None:
            assert elsewhere == 5
            assert await put(one, asked, [record(1)], 5) is None
    assert target.ids() == Counter([page_id(1)])
    assert target.standing().position == 6


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_a_store_that_is_emptied_has_all_from_the_beginning(
    kind: str, make_target: MakeTarget
) -> None:
    """Fills an emptied store from the beginning, as soon as the writer notices."""
    target = make_target(kind)
    asked = writer.pipeline(target.sink)
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        assert await put(sink, asked, [record(1), record(2)]) is None
        for table in ("pages", "crawlstream_notes"):
            select(target.url, f"delete from {table}")  # noqa: S608  its own
        assert await put(sink, asked, [record(3)], 2) == 0
        assert await put(sink, asked, [record(n) for n in (1, 2, 3)]) is None
    assert target.ids() == Counter(page_id(n) for n in (1, 2, 3))


@pytest.mark.parametrize("kind", [*FORMATS, *KINDS[:-1]])
async def test_every_page_is_kept_as_it_is(kind: str, make_target: MakeTarget) -> None:
    """Empty, binary, with NUL, in UTF-16, 4 MB, cut, unmodified, with fields of others."""
    target = make_target(kind, ', body = "bytes"' if kind in WITHOUT_BODIES else "")
    plain = [record(n, **page) for n, page in enumerate(HOSTILE)]
    records = [*plain, record(99)[:-1] + b',"of_others":{"a":[1]}}']
    await carry(target, records, more='where = {status = ["2xx", "3xx"]}')
    pages = [decode(each) for each in records]
    assert dict(target.bodies()) == {page.id: page.body for page in pages}
    assert target.ids() == Counter(page.id for page in pages)


async def test_a_partition_that_comes_back_is_read_on(target: Target) -> None:
    """Repeats of what was there before are dropped, in one batch and across batches."""
    first, second = [record(n) for n in (1, 2, 1)], [record(n) for n in (2, 3, 3)]
    await carry(target, first)
    await carry(target, second, start=3)
    assert target.ids() == Counter(page_id(n) for n in (1, 2, 3))
    total = target.standing().account.total
    assert (total.read, total.delivered, total.repeats) == (6, 3, 3)


async def test_a_page_that_is_not_wanted_is_counted_once(target: Target) -> None:
    """Counts an unwanted page once: when it comes again it is a repeat, though not stored."""
    unwanted = record(1, status_code=404)
    await carry(target, [unwanted, record(2), unwanted])
    await carry(target, [unwanted, record(2), record(1)], start=3)
    assert target.ids() == Counter([page_id(2)])
    total = target.standing().account.total
    assert (total.read, total.delivered, total.repeats) == (6, 1, 4)
    assert total.filtered == {"where.status": 1}


async def test_another_edition_begins_anew(target: Target) -> None:
    """It has its own position and account, and what the one before has written stays."""
    await carry(target, [record(1)])
    edition, beside = "edition = 2", target.beside()
    await carry(beside, [record(1), record(2)], more=edition)
    assert beside.ids(edition) == Counter(page_id(n) for n in (1, 2))
    assert target.ids() == Counter([page_id(1)])
    assert (target.standing().position, beside.standing(edition).position) == (1, 2)


async def test_what_kafka_has_deleted_is_counted(target: Target) -> None:
    """The sink goes on behind the gap, and knows where when it comes back."""
    await carry(target, [record(1)])
    asked, gap = writer.pipeline(target.sink), OutOfRange(writer.TOPIC, 0, 1, 10, 20)
    async with writer.sink_of(asked, target.spool) as sink:
        assert await sink.position(writer.TOPIC, 0) == 1
        assert await sink.skip(gap, Liveness("write")) == 10
        assert await put(sink, asked, [record(2)], 10) is None
    standing = target.standing()
    assert (standing.position, standing.account.total.lost) == (11, 9)
    assert target.ids() == Counter(page_id(n) for n in (1, 2))


async def test_where_a_pipeline_begins_is_remembered(target: Target) -> None:
    """Remembers where a pipeline begins, though it has died before it wrote anything."""
    for start in (7, 9):
        asked = writer.pipeline(target.sink)
        async with writer.sink_of(asked, target.spool, start) as sink:
            assert await sink.position(writer.TOPIC, 0) == 7


async def test_a_batch_of_elsewhere_is_not_written(target: Target) -> None:
    """Notes of another place, or of another topic of the same name, do not count."""
    asked = writer.pipeline(target.sink)
    async with writer.sink_of(asked, target.spool, 0) as sink:
        await sink.position(writer.TOPIC, 0)
        assert await put(sink, asked, [record(1)], 5) == 0
        await sink.position("5f0c2e9a-0000-4000-8000-000000000002", 0)
        assert await put(sink, asked, [record(1)]) is None
    assert not target.ids()


@pytest.mark.parametrize("kind", ["file/jsonl", "objects/parquet"])
async def test_a_quiet_segment_is_closed_by_its_age(kind: str, make_target: MakeTarget) -> None:
    """Closes a segment by its age, though no other page comes."""
    target = make_target(kind)
    asked = writer.pipeline(target.sink.replace("3600", "1"))
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        await put(sink, asked, [record(1)])
        assert not target.ids()
        deadline = time.monotonic() + 30
        while not target.ids():
            assert time.monotonic() < deadline
            assert await sink.tick(Liveness("write")) == {}
