"""Changes of wanted pages only, and changes that a webhook takes after it was replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import Out
from crawlstream.keys import Topics
from pipeline_service.commands import second_chances
from pipeline_service.memory.sql import webhook_queue
from pipeline_service.records import undelivered_records
from pipeline_service.records.undelivered import unsent_change
from pipeline_service.records.undelivered_records import Undelivered
from pipeline_service.staging import Staging
from support.pipelines.changing import URL, Ground, hook, page
from support.pipelines.targets import select
from support.receivers import web_receiver

OTHER = "http://example.com/other"


class KeepingSink:
    """Keeps records in place of Kafka."""

    def __init__(self) -> None:
        self.records: list[Out] = []

    async def send(self, records: list[Out]) -> None:
        """Keep them."""
        self.records += records


def given_up(ground: Ground) -> list[Undelivered]:
    """Return the changes that wait for the webhook as given up, and have none wait."""
    rows = select(ground.url, "select value as it from memory_unsent order by at, key")
    select(ground.url, "delete from memory_unsent returning null")
    topic = Topics("demo").undelivered
    outs = [unsent_change(ground.pipeline, topic, row["it"], "not taken in time") for row in rows]
    return [undelivered_records.decode(out.value) for out in outs]


async def replay(ground: Ground, each: Undelivered) -> bool:
    """Replay an undelivered record."""
    return await second_chances._replay_one(load_settings(), each, Staging(ground.pipeline))


async def test_a_change_that_was_given_up_is_sent_after_a_replay(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sends a replayed change once, under its id and with its body, after any number of replays."""
    async with web_receiver() as receiver:
        ground.more = hook(receiver)
        sink = KeepingSink()
        sender = ground.sender(sink)  # type: ignore[arg-type]
        await ground.learn(page(1, 0), page(2, 1, b"two"), page(3, 0.5, url=OTHER))
        keys = [row["key"] for row in ground.unsent()]
        changes = given_up(ground)
        assert await sender.step()
        for each in (*changes, changes[0]):
            assert await replay(ground, each)
        assert [row["key"] for row in ground.unsent()] == keys
        monkeypatch.setattr(webhook_queue, "MOST_WAITING", 3)
        assert not await replay(ground, changes[0])
        assert "too many changes wait" in capsys.readouterr().out
        await sender.drain()
        assert ground.unsent() == []
    assert sink.records == []
    ids = [headers["Webhook-Id"] for headers, _ in receiver.messages]
    assert sorted(ids) == sorted(keys)
    waiting = ground.waiting()
    assert [each["data"] in waiting for each in receiver.told()] == [True] * 3


@pytest.mark.parametrize("ground", ["sqlite"], indirect=True)
async def test_a_replay_that_sends_nothing_says_why(
    ground: Ground, capsys: pytest.CaptureFixture[str]
) -> None:
    """Says why a replay sends nothing: no webhook, or a change too large to keep."""
    async with web_receiver() as receiver:
        ground.more = hook(receiver)
        await ground.learn(page(1, 0))
        (change,) = given_up(ground)
        for raw, why in ((None, "was too large"), (b"{}", "not an event")):
            other = replace(change, rejection=replace(change.rejection, raw=raw))
            assert not await replay(ground, other)
            assert why in capsys.readouterr().out
    ground.more = ""
    assert not await replay(ground, change)
    assert "has no webhook any more" in capsys.readouterr().out


async def test_only_pages_whose_url_is_wanted_have_events(ground: Ground) -> None:
    """The memory learns all of them, and keeps texts only of the wanted ones."""
    ground.more = ', diff = "lines", where = {url = "/other$"}'
    for number, body in enumerate((b"<p>one", b"<p>two")):
        at = float(number)
        await ground.learn(page(2 * number, at, body), page(2 * number + 1, at, body, url=OTHER))
    events = [(each["url"], each["change"]) for each in ground.waiting()]
    assert events == [(OTHER, "new"), (OTHER, "changed")]
    assert ground.waiting()[1]["diff"]["text"] == "@@ -1,1 +1,1 @@\n-one\n+two\n"
    known = select(ground.url, "select url, changes from memory order by url")
    assert [(row["url"], row["changes"]) for row in known] == [(URL, 1), (OTHER, 1)]
    assert len(select(ground.url, "select id from memory_text")) == 1
