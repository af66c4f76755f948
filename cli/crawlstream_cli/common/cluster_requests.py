"""Requests of commands to the cluster, and their answers.

Commands are clients like any other: they write to the incoming topic and read the outbound one.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import NotReached
from crawlstream.bus.factory import make_sink
from crawlstream.bus.protocols import Sink
from crawlstream.bus.records import Out
from crawlstream.bus.tail import end_offsets, read_topic
from crawlstream.called import COMMAND
from crawlstream.errors import ConfigError, CrawlstreamError, KafkaUnavailable
from crawlstream.keys import Topics
from crawlstream.wire import jsontext
from crawlstream.wire.requests import key_of_fields
from crawlstream_cli.common.words import in_words

APPID = "crawlstream"
"""The application that the commands speak for, unless told otherwise."""


def as_record(topics: Topics, request: Mapping[str, object]) -> Out:
    """A request as it travels; those of one crawl have one key, and so keep their order."""
    return Out(topics.incoming, jsontext.dumps(request), key_of_fields(request))


@asynccontextmanager
async def open_sink(settings: Settings) -> AsyncIterator[Sink]:
    """A sink for a few records; KafkaUnavailable after KAFKA_FEED_TIMEOUT without an answer."""
    sink = make_sink(kafka_of(settings, "crawlstream-command"))
    try:
        async with asyncio.timeout(settings.kafka_feed_timeout):
            await sink.start()
    except (TimeoutError, NotReached) as error:
        await sink.stop()
        raise kafka_is_silent(settings) from error
    except ConfigError:
        await sink.stop()
        raise
    try:
        yield sink
    finally:
        await sink.stop()


def kafka_is_silent(settings: Settings) -> KafkaUnavailable:
    """Return the error for a person when Kafka does not answer."""
    return KafkaUnavailable(
        f"Kafka does not answer at {', '.join(settings.kafka_hosts)}:"
        f" start a cluster with `{COMMAND} up -d`, or set KAFKA_HOSTS"
    )


async def ends_of(settings: Settings, *topics: str) -> list[Mapping[int, int]]:
    """Return the end of each topic; KafkaUnavailable after KAFKA_FEED_TIMEOUT."""
    kafka = kafka_of(settings)
    try:
        async with asyncio.timeout(settings.kafka_feed_timeout):
            return [await end_offsets(kafka, topic) for topic in topics]
    except (TimeoutError, NotReached) as error:
        raise kafka_is_silent(settings) from error


async def send(settings: Settings, requests: Iterable[Mapping[str, object]]) -> None:
    """Feed requests and wait until Kafka has them all."""
    topics = settings.topics
    async with open_sink(settings) as sink:
        await sink.send([as_record(topics, request) for request in requests])


async def request_reply(
    settings: Settings, request: Mapping[str, object], *, timeout_s: float = 15.0
) -> Mapping[str, Any]:
    """Send a request under a uuid of its own and return the reply of the same uuid.

    CrawlstreamError says so when none comes within ``timeout_s`` seconds.
    """
    topics, asked = settings.topics, {"uuid": str(uuid.uuid4()), **request}
    (start,) = await ends_of(settings, topics.outbound)
    await send(settings, [asked])
    replies = read_topic(kafka_of(settings), topics.outbound, offsets=start)
    try:
        async with asyncio.timeout(timeout_s):
            async for record in replies:
                reply = jsontext.loads(record.value or b"null")
                if isinstance(reply, dict) and reply.get("uuid") == asked["uuid"]:
                    return reply
    except TimeoutError:
        pass
    raise CrawlstreamError(
        f"no reply within {timeout_s:g} s: check with `{COMMAND} status` that a kafka-monitor"
        " and a redis-monitor are running"
    )


def refusal(reply: Mapping[str, Any]) -> str | None:
    """Return why the cluster refused a request; None if it did not."""
    if reply.get("action") == "rejected":
        errors = (in_words(str(error)) for error in reply.get("errors", ()))
        return "; ".join(errors) or "the request was rejected"
    error = reply.get("error")
    return str(error) if error else None
