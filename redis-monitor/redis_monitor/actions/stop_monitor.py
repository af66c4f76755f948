"""stop: it took effect at intake, in record order; here it is answered."""

from __future__ import annotations

import time
from typing import cast

from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ActionRequest
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, requests
from redis_monitor.actions.namesakes import namesakes


class StopMonitor:
    """Answers ``stop`` with what was taken out of the frontier."""

    name = "stop"

    def __init__(self, context: Context) -> None:
        self._context = context

    async def answer(self, action: PendingAction) -> Reply:
        """Say how many entries went; for an unknown crawl, which spiders have one."""
        request = cast(ActionRequest, requests.decode(action.request))
        known = () if action.purged is not None else await namesakes(self._context, request)
        body = replies.stop(
            request, purged=action.purged, server_time=int(time.time()), namesakes=known
        )
        return Reply(request.appid, body)
