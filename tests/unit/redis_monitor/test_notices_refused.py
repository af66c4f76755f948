"""Notices that no receiver accepts: few attempts, then the next one."""

from __future__ import annotations

import smtplib
import time
from dataclasses import replace
from email.generator import BytesGenerator
from io import BytesIO
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawlstream.bus.connect import Kafka
from redis_monitor.notify import channel
from redis_monitor.notify.channel import MOST_REFUSALS, Channel, NotAccepted
from redis_monitor.notify.mail import Mail, _is_final
from redis_monitor.notify.notice import Notice
from redis_monitor.notify.webhook import Webhook
from support.receivers import web_receiver
from unit.redis_monitor.test_notify import settings

_TROUBLE = st.sampled_from(["=?", "?=", "=??B?u8?=", "=?utf-8?q?", "\u00e9", "\u202e", "@", "<"])
IDS = st.lists(_TROUBLE | st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).map("".join)


def _notice(name: str) -> Notice:
    at = int(time.time())
    return Notice(id=name, event="crawl_finished", at=at, cluster="demo", text=f"Crawl {name}.")


def _mail() -> Mail:
    more = {"CRAWLSTREAM_NOTIFY_MAIL_TO": "ops@example.com"}
    return Mail(settings(**more, CRAWLSTREAM_NOTIFY_SMTP="smtp://127.0.0.1"))


MAIL = _mail()


@given(IDS)
def test_a_mail_can_be_made_of_every_id(name: str) -> None:
    """Makes a valid mail of any id, without a header that the id adds."""
    mail: Any = MAIL._message(replace(_notice("msg_1"), text=f"Crawl {name} of {name} finished."))
    made = BytesIO()
    BytesGenerator(made, policy=mail.policy.clone(utf8=False, linesep="\r\n")).flatten(mail)
    head = made.getvalue().partition(b"\r\n\r\n")[0].split(b"\r\n")
    names = {line.partition(b":")[0].lower() for line in head if line[:1] not in b" \t"}
    assert names == {
        *(b"from", b"to", b"subject", b"message-id", b"auto-submitted"),
        *(b"content-type", b"content-transfer-encoding", b"mime-version"),
    }


class _Picky:
    """A transport that fails in one way with one notice, and takes all others."""

    name = "webhook"

    def __init__(self, error: Exception) -> None:
        self.error = error
        self.tried: list[str] = []

    async def send(self, notice: Notice) -> None:
        """Take a notice, unless it is the bad one."""
        self.tried.append(notice.id)
        if notice.id == "bad":
            raise self.error


@pytest.mark.parametrize(
    "error", [NotAccepted("answered with status 410"), UnicodeEncodeError("ascii", "x", 0, 1, "y")]
)
async def test_a_notice_that_nobody_can_take_holds_up_no_other(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dropped after few attempts, with its name in the log, and the next one goes out."""
    monkeypatch.setattr(channel, "_FIRST_PAUSE_S", 0.001)
    monkeypatch.setattr(channel, "_LONGEST_PAUSE_S", 0.001)
    monkeypatch.setattr(channel, "make_source", lambda *_, **__: None)
    told: list[tuple[str, str]] = []
    monkeypatch.setattr(
        Channel, "_count", lambda _, outcome, notice, **__: told.append((outcome, notice.id))
    )
    picky = _Picky(error)
    sending: Any = Channel(picky, cast(Kafka, None), "t", group="g", cluster="c", about=())
    for name in ("bad", "good"):
        await sending._deliver(_notice(name))
    assert picky.tried == ["bad"] * MOST_REFUSALS + ["good"]
    assert told[-2:] == [("dropped", "bad"), ("sent", "good")]


def test_only_refusals_of_the_mail_itself_are_final() -> None:
    """A wrong password or a full mailbox of today can be mended; an unknown receiver cannot."""
    final = smtplib.SMTPRecipientsRefused({"a@example.com": (550, b"no such user")})
    passing = smtplib.SMTPRecipientsRefused({"a@example.com": (550, b""), "b": (451, b"later")})
    assert _is_final(final)
    assert _is_final(smtplib.SMTPDataError(554, b"refused"))
    assert not _is_final(passing)
    assert not _is_final(smtplib.SMTPDataError(451, b"later"))
    assert not _is_final(smtplib.SMTPAuthenticationError(535, b"wrong password"))
    assert not _is_final(OSError())


async def test_some_answers_of_a_webhook_are_final() -> None:
    """Another attempt gets 410 again."""
    async with web_receiver() as receiver:
        receiver.refusals, receiver.refusal = 1, "410 Gone"
        more = {
            "CRAWLSTREAM_NOTIFY_WEBHOOK": f"http://127.0.0.1:{receiver.port}",
            "CRAWLSTREAM_NOTIFY_NETWORKS": "127.0.0.0/8",
        }
        with pytest.raises(NotAccepted, match="410"):
            await Webhook(settings(**more)).send(_notice("x"))
