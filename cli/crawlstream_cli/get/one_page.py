"""Get one page from the cluster: feed its URL, wait for the reply, read the record it points to."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.record_reader import RecordReader, WantedRecord
from crawlstream.bus.tail import read_topic
from crawlstream.errors import CrawlstreamError
from crawlstream.model.crawl import ANSWER_PAGE
from crawlstream.model.egress.render import lane_of
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.wire import jsontext
from crawlstream.wire.replies import decode_page
from crawlstream_cli.common.absent import absence
from crawlstream_cli.common.cluster_requests import APPID, ends_of, refusal, send

SPIDER, PRIORITY = "link", 100
_KEPT_S = 3600
"""Seconds after its time within which a page that is late may still be fetched."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GetRequest:
    """A page that is requested."""

    url: str
    wait_s: int
    id: str
    """Id of its crawl, and ``uuid`` of the request."""
    wish: Any = False
    """The ``render`` of the request; False: no browser is needed."""

    @classmethod
    def of(cls, url: str, wait_s: int, wish: Any = False) -> GetRequest:
        """Return a request under a new id, which says whether its page may answer others."""
        kind = "p" if isinstance(wish, dict) else "r" if wish else ""
        id_ = f"get-{kind}{uuid.uuid4().hex[:12]}"
        return cls(url=url, wait_s=wait_s, id=id_, wish=wish)

    @property
    def render(self) -> bool:
        """Return whether a browser fetches it."""
        return bool(self.wish)

    @property
    def lane(self) -> str:
        """Return the name of the crawlers that fetch it."""
        return lane_of(SPIDER, renders=self.render)

    def request(self) -> Mapping[str, object]:
        """Return the crawl request."""
        return {
            "url": self.url,
            "appid": APPID,
            "crawlid": self.id,
            "spiderid": SPIDER,
            "uuid": self.id,
            "answer": ANSWER_PAGE,
            "priority": PRIORITY,
            "remember": 0,
            "expires": int(time.time()) + self.wait_s + _KEPT_S,
            **({"render": self.wish} if self.render else {}),
        }


class NotInTime(Exception):
    """No reply came in time; the text says who is missing, or is empty."""


class GetRefused(CrawlstreamError):
    """The cluster has rejected the request; the text has the reason."""


async def reply_to(settings: Settings, wanted: GetRequest) -> PageReply:
    """Feed the request and return the reply about its page; raise NotInTime or GetRefused."""
    topics = settings.topics
    (start,) = await ends_of(settings, topics.outbound)
    await send(settings, [wanted.request()])
    replies = read_topic(kafka_of(settings), topics.outbound, offsets=start)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(wanted.wait_s), contextlib.aclosing(replies):
            async for record in replies:
                if reply := _reply_in(record.value or b"", wanted.id):
                    return reply
    raise NotInTime(await absence(settings, wanted.lane, with_intake=True))


def _reply_in(value: bytes, id_: str) -> PageReply | None:
    """Return the reply to a request, if a record is it; raise GetRefused."""
    if id_.encode() not in value:
        return None
    told: Any = jsontext.loads(value)
    if told.get("uuid") != id_:
        return None
    if told.get("action") == "rejected":
        raise GetRefused(refusal(told))
    return decode_page(value)


async def record_at(settings: Settings, place: RecordPlace, key: str) -> bytes:
    """Return the value of a result; raise CrawlstreamError if Kafka does not have it any more."""
    topic = settings.topics.crawled
    reader = RecordReader(kafka_of(settings))
    try:
        wanted = WantedRecord(topic, place.partition, place.offset, key.encode())
        record = await reader.read(wanted)
    finally:
        await reader.stop()
    if record is None or record.value is None:
        raise CrawlstreamError(f"the result is not on {topic} any more: Kafka has deleted it")
    return record.value
