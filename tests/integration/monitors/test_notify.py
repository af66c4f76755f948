"""Notifications by real redis-monitors to a real web and a real mail server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import re
import time
from email import message_from_string
from email.policy import default
from urllib.parse import unquote

from kafka import KafkaProducer

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import CrawlEvent, PageFailed
from crawlstream.wire import events
from support.monitors import MonitorCluster, MonitorProcess
from support.receivers import Receiver, mail_receiver, web_receiver
from support.waiting import WaitUntil

SIGNED_BY = "a-secret-of-some-length"
NOW = int(time.time())


def hook(receiver: Receiver, **more: str) -> dict[str, str]:
    """The settings that have a webhook led to a receiver, endings only."""
    return {
        "CRAWLSTREAM_NOTIFY_WEBHOOK": f"http://127.0.0.1:{receiver.port}/hook?to=us",
        "CRAWLSTREAM_NOTIFY_WEBHOOK_SECRET": SIGNED_BY,
        "CRAWLSTREAM_NOTIFY_NETWORKS": "127.0.0.0/8",
        "CRAWLSTREAM_NOTIFY_ABOUT": "finished,stopped",
        **more,
    }


def ending(crawlid: str, event: str = "crawl_finished", run: int = 1) -> bytes:
    """The event of a run that ended."""
    told = CrawlEvent(
        event=event,
        crawl=CrawlKey("link", "shop", crawlid),
        run=run,
        server_time=int(time.time()),
        started_at=time.time() - 65,
        counters={"admitted": 7, "done": 5, "failed": 2},
    )
    return events.encode(told)


async def publish(cluster: MonitorCluster, topic: str, *values: bytes) -> None:
    """Write records."""

    def write() -> None:
        producer = KafkaProducer(bootstrap_servers=cluster.kafka_hosts)
        for value in values:
            producer.send(topic, value)
        producer.flush(60)
        producer.close()

    await asyncio.to_thread(write)


async def _until_heard(
    cluster: MonitorCluster, receiver: Receiver, wait_until: WaitUntil, mark: str
) -> None:
    """Publish endings until the first is sent: only then a new channel has its place."""

    async def is_heard() -> bool:
        await publish(cluster, cluster.topics.events, ending(mark))
        return any(mark in str(message) for message in receiver.messages)

    await wait_until(is_heard, timeout_s=150, every_s=1)


def of(receiver: Receiver, crawlid: str) -> list[str]:
    """Events that were sent of a crawl, in their order."""
    return [
        told["event"] for told in receiver.told() if told.get("crawl", {}).get("crawlid") == crawlid
    ]


async def test_an_ending_is_posted_and_signed(
    cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """Endings that were asked for come once each, signed, in words and as data; no other event."""
    async with web_receiver() as receiver:
        with cluster.redis_monitor(**hook(receiver)):
            await _until_heard(cluster, receiver, wait_until, "warm-up")
            failed = PageFailed(
                id="x",
                crawl=CrawlKey("link", "shop", "signed"),
                run=1,
                server_time=NOW,
                url="http://x/",
                reason="dns",
                attempts=4,
                depth=0,
            )
            await publish(
                cluster,
                cluster.topics.events,
                *(b"no JSON", events.encode(failed), ending("signed", "crawl_expired")),
                *(ending("signed", "crawl_stopped"), ending("signed", run=2)),
            )
            await wait_until(lambda: len(of(receiver, "signed")) == 2, timeout_s=30)
    assert set(of(receiver, "signed")) == {"crawl_stopped", "crawl_finished"}
    headers, body = receiver.messages[-1]
    assert headers["request"] == "POST /hook?to=us HTTP/1.1"
    name, at = headers["Webhook-Id"], headers["Webhook-Timestamp"]
    assert abs(time.time() - int(at)) < 60
    signed = hmac.digest(SIGNED_BY.encode(), f"{name}.{at}.".encode() + body, hashlib.sha256)
    assert headers["Webhook-Signature"] == f"v1,{base64.b64encode(signed).decode()}"
    told = receiver.told()[-1]
    assert (told["id"], told["cluster"]) == (name, cluster.prefix)
    assert told["text"].startswith("Crawl signed of shop ")
    assert "5 done, 2 failed" in told["text"]
    assert "0:01:0" in told["text"]
    assert told["crawl"]["counters"]["failed"] == 2


async def test_what_is_refused_comes_later_also_from_another_process(
    cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """An ending that a receiver refuses is sent again, by the next process if one dies."""
    async with web_receiver() as receiver:
        with cluster.redis_monitor(**hook(receiver)) as first:
            await _until_heard(cluster, receiver, wait_until, "first")
            receiver.refusals, before = 3, receiver.tried
            await publish(cluster, cluster.topics.events, ending("refused"))
            await wait_until(lambda: receiver.tried > before + 1, timeout_s=30)
            assert of(receiver, "refused") == []
            first.kill()
        await publish(cluster, cluster.topics.events, ending("meanwhile"))
        receiver.refusals = 0
        with cluster.redis_monitor(**hook(receiver)):
            heard = ["refused", "meanwhile"]
            await wait_until(lambda: all(of(receiver, one) for one in heard), timeout_s=150)


async def test_a_mail_waits_for_nobody(cluster: MonitorCluster, wait_until: WaitUntil) -> None:
    """Mail is sent, and again after a refusal, while a webhook is refused for its address."""
    async with mail_receiver() as receiver, web_receiver() as internal:
        settings = hook(internal) | {
            "CRAWLSTREAM_NOTIFY_NETWORKS": "",
            "CRAWLSTREAM_NOTIFY_SMTP": f"smtp://127.0.0.1:{receiver.port}",
            "CRAWLSTREAM_NOTIFY_MAIL_TO": "ops@example.com, dev@example.com",
        }
        receiver.refusals = 1
        with cluster.redis_monitor(**settings) as process:
            await _until_heard(cluster, receiver, wait_until, "mailed")
            await wait_until(lambda: "is not a public address" in process.logged(), timeout_s=30)
            assert "CRAWLSTREAM_NOTIFY_NETWORKS" in process.logged()
    assert internal.tried == 0
    mail = message_from_string(receiver.messages[0], policy=default)
    assert mail["To"] == "ops@example.com, dev@example.com"
    assert mail["Subject"].startswith(f"[{cluster.prefix}] Crawl mailed of shop finished: 5 done")
    assert mail["Message-ID"].startswith("<msg_")
    assert '"done":5' in unquote(mail.get_content())


async def test_problems_are_told_once_when_they_begin_and_end(
    cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """Two redis-monitors see the same, one sends it: what is missing, and that it is back."""
    async with web_receiver() as receiver:
        settings = hook(receiver) | {
            "CRAWLSTREAM_NOTIFY_ABOUT": "problems",
            "CRAWLSTREAM_NOTIFY_AFTER": "2",
        }
        with cluster.redis_monitor(**settings), cluster.redis_monitor(**settings):

            def codes(event: str) -> list[str]:
                return [told["problem"] for told in receiver.told() if told["event"] == event]

            await wait_until(lambda: "no_kafka_monitor" in codes("problem_began"), timeout_s=150)
            await publish(cluster, cluster.topics.rejected, b"{}", b"{}")
            await wait_until(lambda: "rejected" in codes("problem_began"), timeout_s=30)
            with cluster.kafka_monitor():
                await wait_until(
                    lambda: "no_kafka_monitor" in codes("problem_ended"), timeout_s=150
                )
            await wait_until(lambda: codes("problem_began").count("no_kafka_monitor") == 2)
    began = codes("problem_began")
    assert began.count("rejected") == 1
    text = next(told["text"] for told in receiver.told() if told["problem"] == "rejected")
    assert text.startswith("2 requests were rejected")


async def test_a_problem_is_told_though_the_teller_died(
    cluster: MonitorCluster, wait_until: WaitUntil
) -> None:
    """The sending one of two redis-monitors dies just before a change: the other sends it."""
    async with web_receiver() as receiver:
        settings = hook(receiver) | {
            "CRAWLSTREAM_NOTIFY_ABOUT": "problems",
            "CRAWLSTREAM_NOTIFY_AFTER": "2",
        }

        async def is_told() -> bool:
            await publish(cluster, cluster.topics.rejected, b"{}")
            return any(told["problem"] == "rejected" for told in receiver.told())

        with cluster.redis_monitor(**settings) as one, cluster.redis_monitor(**settings) as other:
            await wait_until(lambda: one.starts() and other.starts())
            min(one, other, key=_node).kill()
            await wait_until(is_told, timeout_s=60, every_s=1)


def _node(process: MonitorProcess) -> str:
    """Key that orders the redis-monitors of a machine."""
    found = re.search(r'"node":"(\w+)"', process.logged())
    assert found is not None
    return found[1]
