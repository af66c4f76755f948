"""Ways for REST and crawlers to break a law of scrapes on purpose, to be caught.

``BREAK`` in the environment says how. ``python -m chaos.scrapes.broken_rest`` is a REST process
with one of them; a crawler loads them as a user's spiders, by ``CRAWLSTREAM_SPIDER_MODULES``.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence

from crawling.page.page import Page
from crawling.publish.page_answers import PageAnswers
from crawling.publish.publisher import Publisher
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.model.result import CrawlResult
from crawlstream_frontier.scrapes.door import Admission, Door, DoorAnswer, DoorBounds, ScrapeTicket
from rest_service.__main__ import main as rest
from rest_service.service import Service
from rest_service.topics.flights import Flight
from rest_service.topics.page_replies import PageReplies
from rest_service.topics.replies import ReplyReader
from rest_service.v2.scrapes import admission

_wait = PageReplies.wait
_find_begin = ReplyReader._find_begin
_publish = Publisher.result


async def _admit_all(
    _self: Door, _ticket: ScrapeTicket, _bounds: DoorBounds, _ended: Sequence[str] = ()
) -> DoorAnswer:
    """Let everybody in."""
    return DoorAnswer(Admission.OK, 0.0, time.time(), 0.0)


async def _invent(self: PageReplies, uuid: str, within_s: float) -> PageReply | None:
    """Answer with a page that was never fetched."""
    reply = await _wait(self, uuid, within_s)
    return reply or PageReply(
        uuid=uuid,
        crawl=CrawlKey("link", "scrapes", "invented"),
        run=1,
        server_time=int(time.time()),
        id=f"invented-{uuid}",
        url="http://127.77.0.1/scraped/invented",
        status_code=200,
        place=RecordPlace("unknown", 0, 1 << 40),
    )


async def _find_end(self: ReplyReader) -> None:
    """Begin with the replies that come from now on."""
    await _find_begin(self)
    self._offsets = dict(self._ends)


async def _feed_nothing(
    _service: Service, _flights: Sequence[Flight], _seeds: Sequence[bytes]
) -> None:
    """Say that it was fed."""


async def _reply_nothing(self: PageAnswers, page: Page, result: CrawlResult) -> None:
    """Publish the result without the reply."""
    await _publish(self._publisher, result)
    page.answered = page.lease.profile.uuid or ""


BREAKS: Mapping[str, Callable[[], None]] = {
    "admit-all": lambda: setattr(Door, "enter", _admit_all),
    "invent": lambda: setattr(PageReplies, "wait", _invent),
    "forget-replies": lambda: setattr(ReplyReader, "_find_begin", _find_end),
    "feed-nothing": lambda: setattr(admission, "feed", _feed_nothing),
    "reply-nothing": lambda: setattr(PageAnswers, "publish", _reply_nothing),
}
"""Each does one thing that it must not do; the last one in a crawler, all others in REST."""

if name := os.environ.get("BREAK"):
    BREAKS[name]()
if __name__ == "__main__":
    sys.exit(rest([]))
