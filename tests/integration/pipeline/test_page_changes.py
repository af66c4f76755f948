"""Changes of pages in real databases: each is an event once, and is published by one process."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from crawlstream.boot.liveness import Liveness
from crawlstream_chaos.stores.postgres import RunningPostgres
from pipeline_service.memory.line_diff import LineDiff, diff_lines
from pipeline_service.memory.seen import key_of
from pipeline_service.memory.sql import change_outbox, change_store, change_texts
from pipeline_service.memory.sql.change_store import ChangeStore
from pipeline_service.records.judging import judge
from pipeline_service.sink_factory import open_changes
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.memory import PagesSink
from pipeline_service.staging import opened
from support.pipelines import writer
from support.pipelines.results import page_id, record
from support.pipelines.targets import select
from support.waiting import WaitUntil

BEGAN = 1_795_251_154.0
URL = "http://example.com/a"


class Ground:
    """A memory whose changes are events."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.diff = "none"
        self._stores: list[ChangeStore] = []

    @property
    def pipeline(self) -> Pipeline:
        """Its pipeline, named ``p``."""
        told = f'signature = "body", changes = {{events = true, diff = "{self.diff}"}}'
        sink = f'kind = "pages", url = "{self.url}", {told}'
        more = 'where = {appid = ["app"]}\nworkers = 0\nstage = [{use = "markdown"}]'
        return writer.pipeline(sink, more)

    async def learn(self, *values: bytes, partition: int = 0) -> None:
        """Have the memory read records of a partition, after those before."""
        asked = self.pipeline
        async with writer.sink_of(asked, self.folder / f"spool{partition}") as sink:
            start = await sink.position(writer.TOPIC, partition) or 0
            batch = replace(writer.batch_of(values, start), partition=partition)
            async with opened([asked]) as stagings:
                judged = judge(asked, batch)
                staged = await stagings["p"].run(judged, lambda _: None, lambda _: False)
            assert await sink.write(batch, staged, Liveness("write")) is None

    def store(self) -> ChangeStore:
        """The changes, as another process has them."""
        pipeline = self.pipeline
        assert isinstance(pipeline.sink, PagesSink)
        self._stores.append(open_changes(pipeline, pipeline.sink))
        return self._stores[-1]

    def waiting(self) -> list[Any]:
        """The events that wait to be published."""
        found = select(self.url, "select value as it from memory_outbox order by at, key")
        return [orjson.loads(row["it"]) for row in found]

    def close(self) -> None:
        """Let go of the database."""
        for store in self._stores:
            store.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def ground(request: pytest.FixtureRequest, tmp_path: Path, fresh_name: str) -> Iterator[Ground]:
    """An empty memory of each kind."""
    url = f"sqlite:///{tmp_path}/news.db"
    if request.param == "postgresql":
        server: RunningPostgres = request.getfixturevalue("postgres_server")
        url = server.make_database(fresh_name)
    with contextlib.closing(Ground(url, tmp_path)) as ground:
        yield ground


def page(number: int, hours: float, body: bytes = b"one", url: str = URL) -> bytes:
    """A result of a page, seen that number of hours after the beginning."""
    at = BEGAN + 3_600 * hours
    return record(number, url=url, response_url=url, timestamp=at, body=body)


async def test_each_change_is_an_event_once(ground: Ground) -> None:
    """A record that is read again, in another partition or by a process that was frozen, adds none.

    Nor does a page that has not changed.
    """
    asked = ground.pipeline
    first = [page(1, 0), page(2, 1), page(3, 2, b"two")]
    async with writer.sink_of(asked, ground.folder / "frozen") as frozen:
        await frozen.position(writer.TOPIC, 0)
        await ground.learn(*first)
        batch = writer.batch_of(first)
        assert await frozen.write(batch, judge(asked, batch), Liveness("write")) == len(first)
    await ground.learn(*reversed(first), partition=1)
    assert [each["change"] for each in ground.waiting()] == ["new", "changed"]
    new, changed = ground.waiting()
    assert (new["change"], new["before"], new["signature"]["from"]) == ("new", None, None)
    assert new["signature"]["to"] == changed["signature"]["from"]
    assert changed["signature"]["to"] not in (None, changed["signature"]["from"])
    del changed["signature"]
    assert time.time() - changed.pop("server_time") < 600
    assert changed == {
        "event": "page_changed",
        "appid": "app",
        "memory": "p",
        "url": URL,
        "change": "changed",
        "id": page_id(3),
        "before": "2026-11-21T09:52:34.000000Z",
        "at": "2026-11-21T10:52:34.000000Z",
        "visits": 2,
        "changes": 1,
        "result": {"topic": "t", "partition": 0, "offset": 2},
    }


async def test_diffs_of_a_page_follow_each_other(ground: Ground) -> None:
    """Each begins with the text of the event before it, whatever came in between.

    A page that comes back has a diff, too; one that is gone, or has no text, has none.
    """
    await ground.learn(page(1, 0, b"<p>one"))
    assert "diff" not in ground.waiting()[0]
    ground.diff = "lines"
    await ground.learn(page(2, 1, b"<p>one"))
    text = "".join(f"<p>{n}" for n in range(10))
    await ground.learn(
        page(3, 2, b"<p>two"),
        page(4, 3, text.encode()),
        page(4, 3, text.encode()),
        record(5, url=URL, response_url=URL, timestamp=BEGAN + 4 * 3_600, status_code=404),
        record(6, url=URL, response_url=URL, timestamp=BEGAN + 5 * 3_600, status_code=404),
    )
    await ground.learn(page(7, 6, text.encode()))
    await ground.learn(page(8, 7, text.replace("7", "&eacute;").encode()), partition=1)
    _, two, digits, gone, back, changed = [each.get("diff") for each in ground.waiting()]
    lines = {"unit": "lines", "added": 1, "removed": 1, "truncated": False}
    assert two == {**lines, "text": "@@ -1,1 +1,1 @@\n-one\n+two\n"}
    assert (digits["added"], digits["removed"]) == (19, 1)
    assert gone is None
    assert back == {**lines, "added": 0, "removed": 0, "text": ""}
    assert changed["text"].splitlines()[4:6] == ["-7", "+é"]


async def test_a_diff_that_another_process_has_overtaken_is_made_again(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one compares, another publishes a change in between: both diffs follow each other."""
    ground.diff = "lines"
    await ground.learn(page(1, 0, b"<p>one"))
    compared = []

    def compare(before: str, after: str, *, most_steps: int) -> LineDiff:
        compared.append((before.strip(), after.strip()))
        if len(compared) == 1:
            asyncio.run(ground.learn(page(2, 1, b"<p>two"), partition=1))
        return diff_lines(before, after, most_steps=most_steps)

    monkeypatch.setattr(change_texts, "diff_lines", compare)
    await ground.learn(page(3, 2, b"<p>three"))
    assert compared == [("one", "three"), ("one", "two"), ("two", "three")]
    texts = [each["diff"] and each["diff"]["text"] for each in ground.waiting()]
    head = "@@ -1,1 +1,1 @@\n"
    assert texts == [None, f"{head}-one\n+two\n", f"{head}-two\n+three\n"]


async def test_one_process_publishes_and_another_takes_over(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It publishes equal bytes under equal keys, in the order of each page, and each only once."""
    await ground.learn(page(1, 0), page(2, 1, b"two"), page(3, 2, b"three"))
    first, second = ground.store(), ground.store()
    claim = first.claim("one")
    assert claim is not None
    key = key_of("app", URL)
    at = [round((BEGAN + 3_600 * hour) * 1e6) for hour in range(3)]
    assert [each for each, _ in claim] == [f"p:{key}:{each}" for each in at]
    assert second.claim("two") == ()
    assert first.claim("one") == claim
    monkeypatch.setattr(change_store, "TURN_S", -1.0)
    assert second.claim("two") == claim
    monkeypatch.undo()
    second.published([each for each, _ in claim[:2]])
    assert second.claim("two") == claim[2:]
    second.published([claim[2][0]])
    assert second.claim("two") is None
    assert first.claim("one") is None
    # A process that has published all returns its turn: another one does not wait for its end.
    await ground.learn(page(4, 3, b"four"))
    assert len(first.claim("one") or ()) == 1


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
async def test_nothing_is_learnt_while_too_many_changes_wait(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, wait_until: WaitUntil
) -> None:
    """The pipeline waits, and no change is lost: its position moves when some are published."""
    monkeypatch.setattr(change_outbox, "MOST_WAITING", 2)
    await ground.learn(page(1, 0), page(2, 1, b"two"))
    learning = asyncio.create_task(ground.learn(page(3, 2, b"three")))
    await asyncio.sleep(0.5)
    assert not learning.done()
    assert len(ground.waiting()) == 2
    assert select(ground.url, "select changes as it from memory") == [{"it": 1}]
    store = ground.store()
    claim = await asyncio.to_thread(store.claim, "one")
    await asyncio.to_thread(store.published, [key for key, _ in claim or ()])
    await wait_until(learning.done)
    await learning
    assert [each["changes"] for each in ground.waiting()] == [2]
