"""stop: it took effect at intake, in record order; here it is answered."""

from __future__ import annotations

import time
from typing import cast

from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ActionRequest
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, requests


class StopMonitor:
    """Answers ``stop`` with what was taken out of the frontier."""

    name = "stop"

    def __init__(self, context: Context) -> None:
        del context

    async def answer(self, action: PendingAction) -> Reply:
        """Say how many entries went; an unknown crawl, or none named, is an error."""
        request = cast(ActionRequest, requests.decode(action.request))
        body = replies.stop(request, purged=action.purged, server_time=int(time.time()))
        return Reply(request.appid, body)
