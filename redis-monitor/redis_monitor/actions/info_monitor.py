"""info: what a crawl, or every crawl of an application, has waiting; counters, never entries."""

from __future__ import annotations

import time
from typing import cast

from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ActionRequest
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, requests


class InfoMonitor:
    """Answers ``info``, with a crawlid or without."""

    name = "info"

    def __init__(self, context: Context) -> None:
        self._frontier = context.frontier

    async def answer(self, action: PendingAction) -> Reply:
        """Read the ledger."""
        request = cast(ActionRequest, requests.decode(action.request))
        if request.crawl is None:
            crawls = await self._frontier.crawls(
                spiderid=request.spiderid, appid=request.appid, with_domains=True
            )
            body = replies.info_app(request, crawls, server_time=int(time.time()))
        else:
            state = await self._frontier.crawl_state(request.crawl)
            body = replies.info_crawl(request, state, server_time=int(time.time()))
        return Reply(request.appid, body)
