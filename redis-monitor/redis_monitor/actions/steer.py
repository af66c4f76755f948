"""pause, resume, reprioritize: they took effect at intake, in record order; here is the answer."""

from __future__ import annotations

import time
from typing import cast

from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ActionRequest
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, requests
from redis_monitor.actions.namesakes import namesakes


class _SteerMonitor:
    """Says which run was meant; a crawl that is unknown, or not named, is an error."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def answer(self, action: PendingAction) -> Reply:
        """Say what was changed, or why nothing was."""
        request = cast(ActionRequest, requests.decode(action.request))
        known = () if action.run is not None else await namesakes(self._context, request)
        body = replies.steered(
            request, run=action.run, server_time=int(time.time()), namesakes=known
        )
        return Reply(request.appid, body)


class PauseMonitor(_SteerMonitor):
    """Answers ``pause``."""

    name = "pause"


class ResumeMonitor(_SteerMonitor):
    """Answers ``resume``."""

    name = "resume"


class ReprioritizeMonitor(_SteerMonitor):
    """Answers ``reprioritize``."""

    name = "reprioritize"
