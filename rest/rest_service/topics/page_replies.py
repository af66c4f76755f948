"""Replies about pages, which say where the result of a scrape is: those of the last hour."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply
from crawlstream.wire import replies, requests
from crawlstream_frontier.scrapes.scrape_names import KEPT_S, is_scrape_id
from rest_service.topics.flights import Flight
from rest_service.topics.recents import Recents

KEPT_REPLIES = 10_000
"""Maximum number of replies that are kept, and of scrapes that clients have given up."""


def page_reply_of(value: bytes) -> PageReply | None:
    """Return the reply about a page in a record: also that its seed was rejected; else None."""
    if (reply := replies.decode_page(value)) is not None:
        return reply
    if b'"rejected"' not in value:
        return None
    ids = requests.readable_ids(value)
    if not is_scrape_id(ids.get("uuid", "")):
        return None
    crawl = CrawlKey("link", ids.get("appid", ""), ids.get("crawlid", ""))
    return PageReply(
        uuid=ids["uuid"], crawl=crawl, run=0, server_time=int(time.time()), reason="rejected"
    )


class PageReplies:
    """Keeps replies by uuid, and wakes the clients that wait for one."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, PageReply] = OrderedDict()
        self._dropped: OrderedDict[str, None] = OrderedDict()
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self.recents = Recents(self._of)
        self.on_arrival: Callable[[str], Flight | None] = lambda _: None
        """Called with the uuid of each reply; returns the flight that has ended with it."""

    def arrived(self, reply: PageReply) -> None:
        """Keep a reply; of several with a uuid, the latest. Those to others are left out."""
        if not is_scrape_id(reply.uuid):
            return
        flight = self.on_arrival(reply.uuid)
        if reply.uuid not in self._dropped:
            self._kept[reply.uuid] = reply
            self._kept.move_to_end(reply.uuid)
            self.recents.note(reply, flight.asked if flight else None)
        self._drop_old()
        for future in self._waiting.pop(reply.uuid, ()):
            if not future.done():
                future.set_result(None)

    async def wait(self, uuid: str, within_s: float) -> PageReply | None:
        """Return the reply as soon as it is there; None: not in time, or given up."""
        if (reply := self._of(uuid)) or within_s <= 0 or self.is_dropped(uuid):
            return reply
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting.setdefault(uuid, [])
        waiting.append(future)
        try:
            await asyncio.wait([future], timeout=within_s)
        finally:
            if future in waiting:
                waiting.remove(future)
            if not waiting and self._waiting.get(uuid) is waiting:
                del self._waiting[uuid]
        return self._of(uuid)

    def drop(self, uuid: str) -> None:
        """Forget the reply, also one that comes later."""
        self._kept.pop(uuid, None)
        self._dropped[uuid] = None
        if len(self._dropped) > KEPT_REPLIES:
            self._dropped.popitem(last=False)

    def is_dropped(self, uuid: str) -> bool:
        """Return whether its client has given up a scrape, at this process."""
        return uuid in self._dropped

    def _of(self, uuid: str) -> PageReply | None:
        self._drop_old()
        return self._kept.get(uuid)

    def _drop_old(self) -> None:
        oldest = self._clock() - KEPT_S
        while self._kept:
            uuid, reply = next(iter(self._kept.items()))
            if reply.server_time >= oldest and len(self._kept) <= KEPT_REPLIES:
                return
            del self._kept[uuid]
