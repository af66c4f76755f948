"""Notifications: which settings are refused, which problems count, who is posted to."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from crawlstream.boot import signed_post
from crawlstream.boot.sections.notify import NOTICES
from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import RunDelivered
from crawlstream.model.recurring.schedule import ScheduleEvent
from crawlstream.wire import events, jsontext
from redis_monitor.notify.channel import NotDelivered
from redis_monitor.notify.mail import Mail
from redis_monitor.notify.notice import Notice, encode_notice
from redis_monitor.notify.problems import PendingChanges, ProblemLog
from redis_monitor.notify.sentences import notices_of
from redis_monitor.notify.webhook import Webhook
from support.receivers import mail_receiver, web_receiver

SIGNED_BY = "a-secret-of-some-length"
NOTICE = Notice(
    id="msg_1",
    event="problem_began",
    at=int(time.time()),
    cluster="demo",
    text="It is\nbad\x1b[2J.",
    problem="bad",
)


def settings(**more: str) -> Any:
    """Settings with a webhook."""
    hook = {
        "CRAWLSTREAM_NOTIFY_WEBHOOK": "https://hooks.example.com/x",
        "CRAWLSTREAM_NOTIFY_WEBHOOK_SECRET": SIGNED_BY,
    }
    return load_settings(**{**hook, **more})


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("WEBHOOK", "ftp://x/", "must be http://host or https://host"),
        ("WEBHOOK", "https://user:word@x/", "without credentials"),
        ("WEBHOOK", "https:///x", "must be http://host or https://host"),
        ("WEBHOOK_SECRET", "short", "at least 16 characters"),
        ("SMTP", "mail.example.com", "must be smtp://"),
        ("ABOUT", "finished,nonsense", "unknown: nonsense; known: finished, stopped"),
        ("NETWORKS", "somewhere", "somewhere"),
    ],
)
def test_settings_that_cannot_work_are_refused(name: str, value: str, why: str) -> None:
    """The sentence names what is wrong, never the secret."""
    with pytest.raises(ConfigError, match=why) as refused:
        settings(**{f"CRAWLSTREAM_NOTIFY_{name}": value})
    assert f"NOTIFY_{name}" in str(refused.value)
    assert SIGNED_BY not in str(refused.value)


def test_a_problem_is_told_when_it_lasts() -> None:
    """A short problem is not reported; a lasting one once, and once when it has stayed away."""
    told = ProblemLog(10)
    bad = {"bad": "It is bad."}
    assert told.note(bad, 0) == []
    assert told.note({}, 5) == []
    assert told.note(bad, 8) == []
    assert told.note(bad, 17) == []
    assert told.note({"bad": "It is worse."}, 18) == [("problem_began", "bad", "It is worse.")]
    assert told.note(bad, 100) == []
    assert told.note({}, 101) == []
    assert told.note(bad, 102) == []
    assert told.note(bad, 200) == []
    assert told.note({}, 201) == []
    assert told.note({}, 211) == [("problem_ended", "bad", "No longer: It is bad.")]
    assert told.note({}, 300) == []


def test_a_change_is_told_by_the_leader_or_by_its_successor() -> None:
    """Reports a change once, by the leader or by its successor."""
    first, second = ("problem_began", "a", "A."), ("problem_ended", "a", "No longer: A.")
    owed = PendingChanges("b")
    owed.add([first, second], "a", 0)
    assert owed.due("a", 19) == []
    assert owed.due("b", 20) == [first, second]
    assert owed.due("b", 21) == []
    owed.add([first], "a", 30)
    assert owed.due("a", 51) == []
    assert owed.due("b", 52) == []
    owed.add([first], "0", 60)
    assert owed.due("a", 79) == []
    assert owed.due("b", 90) == [first]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "10.0.0.1", "169.254.169.254"])
async def test_nothing_internal_is_posted_to(host: str) -> None:
    """Posts nothing to internal addresses or host names, unless their network is allowed."""
    async with web_receiver() as receiver:
        url = f"http://{host}:{receiver.port}/"
        with pytest.raises(NotDelivered, match="CRAWLSTREAM_NOTIFY_NETWORKS allows"):
            await Webhook(settings(CRAWLSTREAM_NOTIFY_WEBHOOK=url)).send(NOTICE)
        assert receiver.tried == 0


async def test_redirects_and_silence_are_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver that leads elsewhere, says nothing, or speaks no HTTP has taken nothing."""
    monkeypatch.setattr(signed_post, "TIMEOUT_S", 0.5)

    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"x" * 100_000)
        writer.close()

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with web_receiver() as receiver:
        receiver.refusals = 1
        with pytest.raises(NotDelivered, match="answered with status 302"):
            await _post(receiver.port)
        await _post(receiver.port)
        assert len(receiver.messages) == 1
    for serve, why in ((babble, "limit|longer|chunk"), (silence, "no answer within")):
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            with pytest.raises(NotDelivered, match=why):
                await _post(server.sockets[0].getsockname()[1])
    with pytest.raises(NotDelivered, match=r"refused|Connect"):
        await _post(receiver.port)


async def _post(port: int) -> None:
    more = {
        "CRAWLSTREAM_NOTIFY_WEBHOOK": f"http://127.0.0.1:{port}",
        "CRAWLSTREAM_NOTIFY_NETWORKS": "127.0.0.0/8",
    }
    await Webhook(settings(**more)).send(NOTICE)


async def test_a_password_needs_tls() -> None:
    """A mail server that offers no STARTTLS is not told the password; without one, mail goes."""
    async with mail_receiver() as receiver:
        more = {"CRAWLSTREAM_NOTIFY_MAIL_TO": "ops@example.com"}
        at = f"127.0.0.1:{receiver.port}"
        with pytest.raises(NotDelivered, match="no STARTTLS"):
            await Mail(settings(**more, CRAWLSTREAM_NOTIFY_SMTP=f"smtp://me:word@{at}")).send(
                NOTICE
            )
        assert receiver.tried == 0
        await Mail(settings(**more, CRAWLSTREAM_NOTIFY_SMTP=f"smtp://{at}")).send(NOTICE)
    (mail,) = receiver.messages
    assert "Subject: [demo] It is bad" in mail
    assert "\x1b" not in mail


def delivered(**more: Any) -> bytes:
    """The account of a run by a pipeline."""
    told = RunDelivered(
        crawl=CrawlKey("link", "shop", "spring"),
        run=3,
        server_time=int(time.time()),
        pipeline="products",
        edition=1,
        done=250,
        read=250,
        repeats=0,
        filtered={},
        **{"delivered": 250, "undelivered": 0, **more},
    )
    return events.encode(told)


def skipped(reason: str, **more: Any) -> bytes:
    """The event of a firing that did not happen."""
    return events.encode_of_schedule(
        ScheduleEvent("schedule_skipped", "shop", "nightly", 0, 1, reason=reason, **more)
    )


MISSED = {"expect": [{"price.valid": 0.98, "value": 0.9, "met": False}], "ok": False}
MET = {"expect": [{"items.min": 1, "value": 250, "met": True}], "ok": True}


@pytest.mark.parametrize(
    ("raw", "about", "told"),
    [
        (delivered(quality=MISSED), "quality", "price.valid is 0.9 instead of 0.98"),
        (delivered(delivered=248, undelivered=2), "undelivered", "2 records were not delivered"),
        (skipped("running"), "skipped", "nightly of shop skipped its firing of 1970-01-01 00:00"),
        (skipped("no_seeds", detail="line 3: no URL"), "skipped", "no_seeds (line 3: no URL)"),
        (skipped("missed", count=4), "skipped", "skipped 4 firings up to"),
    ],
)
def test_data_that_is_not_as_expected_is_told(raw: bytes, about: str, told: str) -> None:
    """Reports unexpected data in a sentence with the event, under one id, if requested."""
    (notice,) = notices_of(raw, NOTICES, "demo")
    assert told in notice.text
    assert list(notices_of(raw, [about], "demo")) == [notice]
    assert list(notices_of(raw, set(NOTICES) - {about}, "demo")) == []
    sent: Any = jsontext.loads(encode_notice(notice))
    assert sent["record"] == jsontext.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        delivered(),
        delivered(quality=MET),
        skipped("paused"),
        skipped("pending"),
        b'"run_delivered"',
        b'{"event": "schedule_skipped"}',
        b'{"event": "run_delivered", "ok": false}',
        skipped("running").replace(b'"at":0', b'"at":9999999999999'),
    ],
)
def test_what_is_well_or_no_event_is_not_told(raw: bytes) -> None:
    """Sends nothing of a paused schedule, nor of a record that only looks like an event."""
    assert list(notices_of(raw, NOTICES, "demo")) == []
