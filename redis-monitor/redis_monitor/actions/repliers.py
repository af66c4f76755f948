"""Replies to actions that took effect at intake, in record order, and to queries of crawls."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import cast

from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ActionRequest
from crawlstream.model.state import CrawlState
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, requests, schedules
from crawlstream_frontier.schedules import Schedules
from crawlstream_frontier.scripts import Scripts

_SCHEDULE_ERRORS = {
    "unknown": "no such schedule",
    "too_many": "there are as many schedules as may be (CRAWLSTREAM_MAX_SCHEDULES)",
}


@dataclass(slots=True)
class Replier:
    """Action whose reply one function makes."""

    name: str
    counted_as: str
    """Name in statistics, which clients read."""
    context: Context
    reply: Callable[[Context, PendingAction], Awaitable[Reply]]

    async def answer(self, action: PendingAction) -> Reply:
        """Make the reply."""
        return await self.reply(self.context, action)


async def _info(context: Context, action: PendingAction) -> Reply:
    """Report what a crawl, or every crawl of an application, has waiting: counters, no entries."""
    request = _request_of(action)
    if request.crawl is None:
        crawls = await context.frontier.crawls(
            spiderid=request.spiderid, appid=request.appid, with_domains=True
        )
        body = replies.info_app(request, crawls, server_time=int(time.time()))
    else:
        state = await context.frontier.crawl_state(request.crawl)
        body = replies.info_crawl(request, state, server_time=int(time.time()))
    return Reply(request.appid, body)


async def _stop(context: Context, action: PendingAction) -> Reply:
    """Report how many entries were removed; of an unknown crawl, which spiders have one."""
    request = _request_of(action)
    known = () if action.purged is not None else await _namesakes(context, request)
    now = int(time.time())
    return Reply(
        request.appid, replies.stop(request, purged=action.purged, server_time=now, namesakes=known)
    )


async def _steer(context: Context, action: PendingAction) -> Reply:
    """Report which run was changed; of an unknown crawl, which spiders have one."""
    request = _request_of(action)
    known = () if action.run is not None else await _namesakes(context, request)
    now = int(time.time())
    return Reply(
        request.appid, replies.steered(request, run=action.run, server_time=now, namesakes=known)
    )


async def _schedule(context: Context, action: PendingAction) -> Reply:
    """Report the state of a schedule after the request, or why nothing was done."""
    request = schedules.decode_request(action.request)
    error = _SCHEDULE_ERRORS.get(action.outcome, "")
    stored = Schedules(Scripts(context.redis, context.keys))
    state = None if error else await stored.one(request.appid, request.name)
    body = replies.schedule(
        request, state, error=error, outcome=action.outcome, server_time=int(time.time())
    )
    return Reply(request.appid, body)


_REPLIES = (
    ("info", "InfoMonitor", _info),
    ("stop", "StopMonitor", _stop),
    ("pause", "PauseMonitor", _steer),
    ("resume", "ResumeMonitor", _steer),
    ("reprioritize", "ReprioritizeMonitor", _steer),
    ("schedule", "ScheduleMonitor", _schedule),
)
"""Name of an action, its name in statistics, and the function that makes its reply."""


def make_repliers(context: Context) -> Sequence[Replier]:
    """Return an action for each row of the table."""
    return [Replier(name, counted_as, context, reply) for name, counted_as, reply in _REPLIES]


def _request_of(action: PendingAction) -> ActionRequest:
    return cast(ActionRequest, requests.decode(action.request))


async def _namesakes(context: Context, request: ActionRequest) -> Sequence[CrawlState]:
    """Return the crawls of the request's application with its crawlid, of any spider."""
    if not request.crawlid:
        return ()
    known = await context.frontier.crawls(appid=request.appid)
    return [one for one in known if one.crawl.crawlid == request.crawlid]
