"""The sink of files: what a segment that was left unfinished becomes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream.store.store import Store
from crawlstream.wire import jsontext
from pipeline_service.formats.files import SEGMENT_FORMATS
from pipeline_service.records.judging import judge
from pipeline_service.sinks.files import segments
from support.pipelines import writer
from support.pipelines.results import page_id, record
from support.pipelines.targets import Target

MakeTarget = Callable[..., Target]


@pytest.fixture(params=["file", "objects"])
def place(request: pytest.FixtureRequest) -> str:
    """A kind of store."""
    return str(request.param)


def store_of(target: Target) -> Store:
    """The folder of its edition."""
    return Store.at(writer.pipeline(target.sink).place)


@pytest.mark.parametrize("which", SEGMENT_FORMATS)
def test_every_format_is_made_again_under_its_names(
    place: str, which: str, make_target: MakeTarget
) -> None:
    """A segment that is claimed and half put is the same when another has made it again."""
    target = make_target(f"{place}/{which}")
    with target.start("after_put:kill:3") as process:
        assert process.wait() == -signal.SIGKILL
    store = store_of(target)
    before = {name: store.get(name) for name in store.list() if name.endswith(which)}
    with target.start() as process:
        assert process.wait() == 0
    assert before
    assert all(store.get(name) == content for name, content in before.items())
    target.assert_all_is_there_once()
    rows = 0
    for name in store.list("_log"):
        if name.endswith(".done.json"):
            told: Any = jsontext.loads(store.get(name) or b"")
            for file, about in told["files"].items():
                assert len(store.get(file) or b"") == about["bytes"]
                rows += about["rows"]
    assert rows == writer.PAGES


def test_the_hint_may_be_lost(place: str, make_target: MakeTarget) -> None:
    """A walk finds the same offsets; also if the note is wrong."""
    target = make_target(place)
    store = store_of(target)
    for at in ("after_finish:kill:2", ""):
        with target.start(at) as process:
            process.wait()
        (hint,) = (name for name in store.list("_log") if name.endswith("/latest"))
        store.remove(hint)
    target.assert_all_is_there_once()


async def test_a_spool_whose_disk_is_nearly_full_is_emptied(
    make_target: MakeTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files are complete early rather than begun again and again."""
    monkeypatch.setattr(segments, "LEAST_FREE_BYTES", 1 << 62)
    target = make_target("file/jsonl")
    asked, batch = writer.pipeline(target.sink), writer.batch_of([record(1), record(2)])
    async with writer.sink_of(asked, target.spool) as sink:
        assert await sink.position(writer.TOPIC, 0) is None
        assert await sink.write(batch, judge(asked, batch), Liveness("write")) is None
        assert target.ids() == {page_id(1): 1, page_id(2): 1}
        assert not list(target.spool.glob("*/????????????????????????????????"))


def test_a_claim_of_other_files_leaves_none_of_them(make_target: MakeTarget) -> None:
    """A pipeline whose format was changed after a death has its pages in the new one only."""
    before, after = make_target("file/jsonl"), make_target("file/parquet")
    with before.start("after_put:kill:1") as process:
        process.wait()
    assert before.ids()
    with after.start() as process:
        assert process.wait() == 0
    after.assert_all_is_there_once()
    assert not before.ids()
