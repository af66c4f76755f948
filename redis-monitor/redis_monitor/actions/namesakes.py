"""Crawls that a client may have meant: spiders have crawls of their own, with the same ids."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.model.request import ActionRequest
from crawlstream.model.state import CrawlState
from crawlstream.plugins import Context


async def namesakes(context: Context, request: ActionRequest) -> Sequence[CrawlState]:
    """Return the crawls of the request's application with its crawlid, of any spider."""
    if not request.crawlid:
        return ()
    known = await context.frontier.crawls(appid=request.appid)
    return [one for one in known if one.crawl.crawlid == request.crawlid]
