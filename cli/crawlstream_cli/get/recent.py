"""``get --max-age``: a page that ``get`` has fetched before, instead of a new one."""

from __future__ import annotations

import contextlib
import re
import time

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.settings import Settings
from crawlstream.bus.tail import offsets_since, read_topic
from crawlstream.errors import CrawlstreamError
from crawlstream.model.event import PageReply
from crawlstream.model.url import canonical
from crawlstream.wire.replies import decode_page
from crawlstream_cli.common.cluster_requests import APPID
from crawlstream_cli.get.one_page import GetRequest, record_at
from crawlstream_frontier.scrapes.scrape_names import LASTING

_ID = re.compile(r"get-(r?)[0-9a-f]{12}")
"""Ids of requests of ``get``; those with an ``r`` are rendered, and those with a ``p``, whose pages
have a screenshot or actions, do not match."""


async def recent_record(
    settings: Settings, wanted: GetRequest, max_age_s: int
) -> tuple[PageReply, bytes] | None:
    """Return the reply about the latest such page, and its record; None: it has to be fetched."""
    reply = await _latest(settings, wanted, time.time() - max_age_s)
    if reply is None or reply.place is None or reply.id is None:
        return None
    with contextlib.suppress(CrawlstreamError):
        return reply, await record_at(settings, reply.place, reply.id)
    return None


async def _latest(settings: Settings, wanted: GetRequest, not_before: float) -> PageReply | None:
    kafka, topic = kafka_of(settings), settings.topics.outbound
    start = await offsets_since(kafka, topic, int(1000 * not_before))
    found: PageReply | None = None
    replies = read_topic(kafka, topic, offsets=start, follow=False)
    async with contextlib.aclosing(replies):
        async for record in replies:
            reply = decode_page(record.value or b"")
            if reply and _fits(reply, wanted, not_before):
                found = reply
    return found


def _fits(reply: PageReply, wanted: GetRequest, not_before: float) -> bool:
    name = _ID.fullmatch(reply.uuid)
    return (
        name is not None
        and bool(name[1]) == wanted.render
        and reply.crawl.appid == APPID
        and reply.status_code in LASTING
        and reply.server_time >= not_before
        and canonical(reply.url or "http://none.invalid/") == canonical(wanted.url)
    )
