"""schedule: what a request did to a schedule took effect at intake; here it is answered."""

from __future__ import annotations

import time

from crawlstream.model.effects import PendingAction
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, schedules
from crawlstream_frontier.schedules import Schedules
from crawlstream_frontier.scripts import Scripts

_ERRORS = {
    "unknown": "no such schedule",
    "too_many": "there are as many schedules as may be (CRAWLSTREAM_MAX_SCHEDULES)",
}


class ScheduleMonitor:
    """Answers how a schedule stands after what was asked for."""

    name = "schedule"

    def __init__(self, context: Context) -> None:
        self._schedules = Schedules(Scripts(context.redis, context.keys))

    async def answer(self, action: PendingAction) -> Reply:
        """Say how the schedule stands, or why nothing was done."""
        request = schedules.decode_request(action.request)
        error = _ERRORS.get(action.outcome, "")
        state = None if error else await self._schedules.one(request.appid, request.name)
        body = replies.schedule(
            request, state, error=error, outcome=action.outcome, server_time=int(time.time())
        )
        return Reply(request.appid, body)
