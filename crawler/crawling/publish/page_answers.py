"""Replies to the clients of seeds that wait for the page: where its result is, or why it failed.

The order of effects is result, reply, settle: Kafka has the result before the reply names its
place, and the reply before the page is reported to the frontier. After a death in between, the page
is fetched again under the same id, and so is its reply.
"""

from __future__ import annotations

import time

from crawling.metrics import REPLY_SECONDS
from crawling.page.page import Page
from crawling.publish.publisher import Publisher
from crawlstream.boot.failpoints import failpoint
from crawlstream.model.delivered import mime_of
from crawlstream.model.event import PageReply
from crawlstream.model.result import CrawlResult, digest_of


class PageAnswers:
    """Sends them, each once a page that is wanted (`Page.is_asked_for`)."""

    def __init__(self, publisher: Publisher) -> None:
        self._publisher = publisher

    async def publish(self, page: Page, result: CrawlResult) -> None:
        """Publish a result, then the reply with its place."""
        place = await self._publisher.placed(result)
        failpoint("before_reply")
        size, digest = result.body_size, result.digest
        reply = PageReply(
            uuid=page.lease.profile.uuid or "",
            crawl=result.crawl,
            run=result.run,
            server_time=int(time.time()),
            id=result.id,
            url=result.url,
            status_code=result.status_code,
            mime=_mime_of(result),
            body_size=len(result.body) if size is None else size,
            digest=digest_of(result.body) if digest is None else digest,
            place=place,
        )
        await self._send(page, reply)

    async def fail(self, page: Page, reason: str) -> None:
        """Reply that there is no result."""
        lease = page.lease
        reply = PageReply(
            uuid=lease.profile.uuid or "",
            crawl=lease.crawl,
            run=lease.run,
            server_time=int(time.time()),
            id=page.id,
            url=lease.entry.url,
            reason=reason,
            attempts=lease.attempt,
        )
        await self._send(page, reply)

    async def _send(self, page: Page, reply: PageReply) -> None:
        await self._publisher.reply(reply)
        page.answered = reply.uuid
        outcome = "failed" if reply.reason else "page"
        REPLY_SECONDS.labels(outcome).observe(time.monotonic() - page.admitted_at)


def _mime_of(result: CrawlResult) -> str | None:
    said = [
        value.decode("latin-1")
        for name, values in result.response_headers.items()
        if name.lower() == b"content-type"
        for value in values
    ]
    return mime_of(said) or None
