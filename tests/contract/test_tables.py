"""Promises of tables beyond those of every sink."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.plugins.sinks import SinkUnavailable
from crawlstream.store.store import Store
from crawlstream.tasks import end
from crawlstream.wire.delivered import decode
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_kept, prove
from pipeline_service.sinks import store_calls
from pipeline_service.sinks.sink import SINK_REFUSED, SinkRefused
from support.pipelines import writer
from support.pipelines.pages import HOSTILE
from support.pipelines.results import page_id, record
from support.pipelines.targets import Target, select
from support.waiting import WaitUntil

MakeTarget = Callable[..., Target]


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    """A database."""
    return str(request.param)


async def carry(target: Target, *records: bytes, start: int = 0, more: str = "") -> None:
    """Write records by a sink that has just begun, and end it in order."""
    asked = writer.pipeline(target.sink, more)
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        batch = writer.batch_of(records, start)
        assert await sink.write(batch, judge(asked, batch), Liveness("write")) is None


async def test_a_row_has_the_columns_of_the_table(kind: str, make_target: MakeTarget) -> None:
    """Numbers as numbers, times as times, lists and maps as JSON; no body by default."""
    target = make_target(kind)
    await carry(target, record(1))
    (row,) = target.rows()
    assert "body" not in row
    assert (row["id"], row["status_code"], row["run"]) == (page_id(1), 200, 1)
    at = row["timestamp"] if kind == "postgresql" else datetime.fromisoformat(str(row["timestamp"]))
    assert at == decode(record(1)).timestamp
    told = [json.loads(v) if isinstance(v := row[c], str) else v for c in ("links", "attrs")]
    assert told == [[{"url": "http://127.0.0.7:8080/b", "text": "Bee"}], {"k": [1, None]}]
    assert "secret" not in str(row)


async def test_nul_is_left_out_and_told(kind: str, make_target: MakeTarget) -> None:
    """Text with NUL does not poison a batch: the row says which columns had one."""
    target = make_target(kind)
    await carry(target, record(0, **HOSTILE[2]), record(1, **HOSTILE[-1]), record(2))
    rows_by_id = {row["id"]: row for row in target.rows()}
    row = rows_by_id[page_id(0)]
    assert row["url"] == "http://127.0.0.7/nul"
    extra, attrs = (
        json.loads(v) if isinstance(v := row[c], str) else v for c in ("extra", "attrs")
    )
    assert extra == {"nul": ["url", "attrs"]}
    assert attrs == {"k": ["v", "\\u0000"]}
    assert rows_by_id[page_id(2)]["extra"] is None


async def test_a_row_that_is_refused_is_named_and_the_rest_is_written(
    kind: str, make_target: MakeTarget
) -> None:
    """Names a row that a rule of the table refuses, and writes the rest of the batch."""
    target = make_target(kind)
    await carry(target, record(0))
    rule = "before insert on pages"
    if kind == "sqlite":
        select(
            target.url,
            f"create trigger picky {rule} when new.depth > 5 begin"
            " select raise(abort, 'too deep'); end",
        )
    else:
        select(target.url, "alter table pages add constraint picky check (depth <= 5)")
    asked, batch = writer.pipeline(target.sink), [record(n, depth=n) for n in range(1, 9)]
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        read = writer.batch_of(batch, 1)
        judged = judge(asked, read)
        with pytest.raises(SinkRefused, match=r"picky|too deep") as refused:
            await sink.write(read, judged, Liveness("write"))
        assert sorted(refused.value.problems) == [6, 7, 8]
        judged = refused.value.without(judged)
        assert await sink.write(read, judged, Liveness("write")) is None
    assert target.ids() == Counter(page_id(n) for n in range(6))
    total = target.standing().account.total
    assert (total.undelivered, total.is_closed) == ({SINK_REFUSED: 3}, True)


async def test_an_id_with_nul_is_refused(kind: str, make_target: MakeTarget) -> None:
    """A key cannot be changed: two of them could become one."""
    target = make_target(kind)
    asked = writer.pipeline(target.sink)
    batch = writer.batch_of([record(1, id="a\x00b"), record(2)])
    async with writer.sink_of(asked, target.spool) as sink:
        await sink.position(writer.TOPIC, 0)
        with pytest.raises(SinkRefused) as refused:
            await sink.write(batch, judge(asked, batch), Liveness("write"))
        assert list(refused.value.problems) == [0]


async def test_a_repeat_may_replace_the_row(kind: str, make_target: MakeTarget) -> None:
    """It counts as a repeat all the same; in one batch, the last one is kept."""
    target = make_target(kind, ', on_repeat = "replace"')
    await carry(target, record(1, depth=1), record(2, depth=1), record(2, depth=2))
    await carry(target, record(1, depth=7), start=3)
    assert {row["id"]: row["depth"] for row in target.rows()} == {page_id(1): 7, page_id(2): 2}
    total = target.standing().account.total
    assert (total.delivered, total.repeats) == (2, 2)


async def test_bodies_may_be_kept_outside(
    kind: str, make_target: MakeTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keeps bodies in the body store, by their hash; the row has the URL."""
    target = make_target(kind, ', body = "ref"')
    with pytest.raises(ConfigError, match="set CRAWLSTREAM_BODY_STORE"):
        await carry(target, record(1))
    monkeypatch.setenv("CRAWLSTREAM_BODY_STORE", str(tmp_path / "bodies"))
    await carry(target, record(1), record(2, body=b""))
    refs = {row["id"]: row["body_ref"] for row in target.rows()}
    assert refs[page_id(2)] is None
    kept = str(refs[page_id(1)]).removeprefix("file://")
    assert Store.at(str(tmp_path)).get(kept.removeprefix(f"{tmp_path}/")) == decode(record(1)).body


async def test_a_table_of_an_earlier_version_gets_its_columns(
    kind: str, make_target: MakeTarget
) -> None:
    """If that is allowed; else the sentence says which, and what to do."""
    target = make_target(kind)
    select(target.url, "create table pages (id text primary key, url text, mine text default 'x')")
    with pytest.raises(ConfigError, match=r"no column appid, crawlid.*set migrate = true"):
        await carry(target, record(1))
    await carry(migrating(target), record(1))
    (row,) = target.rows()
    assert (row["id"], row["mine"], row["status_code"]) == (page_id(1), "x", 200)


def migrating(target: Target) -> Target:
    """A store whose table may be changed."""
    return Target(f"{target.sink}, migrate = true", target.home)


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("id text, depth text", "the column depth of the table pages is text; expected bigint"),
        ("id text", "id of the table pages is neither its primary key nor unique"),
    ],
)
async def test_a_table_that_does_not_fit_is_refused(
    table: str, sentence: str, make_target: MakeTarget
) -> None:
    """Refuses a table that does not fit, before a record is read."""
    target = migrating(make_target("postgresql"))
    select(target.url, f"create table pages ({table})")
    with pytest.raises(ConfigError, match=sentence):
        prove(load_settings(), writer.pipeline(target.sink))


async def test_a_table_that_is_gone_is_not_made_anew(kind: str, make_target: MakeTarget) -> None:
    """Its rows would never come back: the position is behind them."""
    target = make_target(kind)
    await carry(target, record(1))
    select(target.url, "drop table pages")
    with pytest.raises(ConfigError, match="is gone, but the pipeline has written to it"):
        prove(load_settings(), writer.pipeline(target.sink))


def test_to_look_writes_nothing(kind: str, make_target: MakeTarget) -> None:
    """A check leaves no table behind."""
    target = make_target(kind)
    prove(load_settings(), writer.pipeline(target.sink))
    with pytest.raises(Exception, match=r"no such table|does not exist"):
        target.rows()


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_pipeline_waits_for_its_database(
    fault: signal.Signals,
    make_target: MakeTarget,
    postgres_server: RunningPostgres,
    wait_until: WaitUntil,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waits for a dead or frozen database and reports it; later, each page is there once."""
    monkeypatch.setattr(store_calls, "CALL_S", 1.0)
    target = make_target("postgresql")
    await carry(target, record(0))
    asked, live = writer.pipeline(target.sink), Liveness("write")
    async with writer.sink_of(asked, target.spool) as sink:
        assert await sink.position(writer.TOPIC, 0) == 1
        postgres_server.signal(fault)
        batch = writer.batch_of([record(1)], 1)
        writing = asyncio.create_task(sink.write(batch, judge(asked, batch), live))
        await wait_until(lambda: "PostgreSQL" in live.waiting_for, timeout_s=240)
        if fault == signal.SIGKILL:
            postgres_server.wait()
            postgres_server.start()
        else:
            postgres_server.signal(signal.SIGCONT)
        assert await writing in (None, 2)
        assert live.waiting_for == ""
    assert target.ids() == Counter(page_id(n) for n in range(2))


async def test_who_leaves_does_not_wait_for_a_frozen_database(
    make_target: MakeTarget, postgres_server: RunningPostgres
) -> None:
    """Ends a process that waits for a frozen database, in a write or a query."""
    target = make_target("postgresql")
    await carry(target, record(0))
    asked, batch = writer.pipeline(target.sink), writer.batch_of([record(1)], 1)
    kept = open_kept(load_settings(), asked)
    assert kept.standings(writer.TOPIC, [0])[0].position == 1
    async with writer.sink_of(asked, target.spool) as sink:
        assert await sink.position(writer.TOPIC, 0) == 1
        postgres_server.signal(signal.SIGSTOP)
        try:
            began = time.monotonic()
            looking = asyncio.create_task(asyncio.to_thread(kept.standings, writer.TOPIC, [0]))
            writing = asyncio.create_task(sink.write(batch, judge(asked, batch), Liveness("write")))
            await asyncio.sleep(0.5)  # Both wait for an answer.
            assert not looking.done()
            await end([writing])
            await asyncio.to_thread(kept.close)
            with pytest.raises(SinkUnavailable):
                await looking
            await sink.end(Liveness("write"))
            assert time.monotonic() - began < store_calls.CALL_S
        finally:
            postgres_server.signal(signal.SIGCONT)
