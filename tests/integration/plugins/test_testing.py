"""The kit for tests of plugins, with a Redis that a test brings."""

from __future__ import annotations

import json
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.errors import SetupError
from crawlstream.plugins import (
    Command,
    Context,
    CrawlKey,
    Handler,
    InvalidRequest,
    PendingAction,
    Record,
    Reply,
    Schema,
    Seed,
)
from crawlstream_chaos.processes import RunningServer
from crawlstream_frontier.testing import answer, handle

CRAWL = CrawlKey("link", "my-app", "c")


class Visit(Handler):
    """A kind of request that is a seed."""

    name, rank = "visit", 50
    schema = Schema({"type": "object", "required": ["visit"]})

    async def handle(self, request: Any, record: Record) -> Seed:
        """The seed of a crawl request."""
        fields = {"url": request["visit"], "appid": CRAWL.appid, "crawlid": CRAWL.crawlid}
        return self.seed(fields, record)


class Waiting(Handler):
    """Asks how much waits."""

    name, rank = "waiting", 50
    schema = Schema({"type": "object", "required": ["waiting"]})

    async def handle(self, request: Any, record: Record) -> Command:
        """The request as it is."""
        return self.command(request, record)


class WaitingAction:
    """Reports the number of waiting pages, and the number of its calls."""

    name = "waiting"

    def __init__(self, context: Context) -> None:
        self._context = context

    async def answer(self, action: PendingAction) -> Reply:
        """The crawl's queue, and a counter of its own."""
        asked = json.loads(action.request)
        context = self._context
        if asked["waiting"] == "rules":
            await context.editor.read()
        state = await context.frontier.crawl_state(CRAWL)
        count = await context.redis.incr(f"{context.keys.tag}asked")
        return Reply.json("my-app", {"queued": state.queued if state else 0, "asked": count})


def test_a_request_that_would_be_refused_is_no_state(redis_server: RunningServer) -> None:
    """It returns its problems, as by handle()."""
    url = f"redis://127.0.0.1:{redis_server.port}/0"
    with pytest.raises(InvalidRequest, match=r"\$.url: must be string"):
        answer(
            WaitingAction,
            handle(Waiting, {"waiting": "pages"}),
            before=[{"url": 1, "appid": "my-app", "crawlid": "c"}],
            redis_url=url,
        )


def test_an_action_gets_a_real_frontier(redis_server: RunningServer) -> None:
    """Effects before it have taken hold, each call has its own, and nothing is left behind."""
    url = f"redis://127.0.0.1:{redis_server.port}/0"
    command = handle(Waiting, {"waiting": "pages"})
    seeds = [handle(Visit, {"visit": f"http://a.example/{number}"}) for number in range(2)]
    fed = {"url": "http://b.example/", "appid": CRAWL.appid, "crawlid": CRAWL.crawlid}
    for _ in range(2):
        reply = answer(WaitingAction, command, before=[*seeds, fed], redis_url=url)
        assert json.loads(reply.body) == {"queued": 3, "asked": 1}
    alone = answer(WaitingAction, command, redis_url=url)
    assert json.loads(alone.body) == {"queued": 0, "asked": 1}


async def test_what_others_have_in_that_redis_stays(
    redis: Redis, redis_server: RunningServer
) -> None:
    """The namespace of the test goes, also where the action fails; nothing else does."""
    await redis.set("mine", 1)
    command = handle(Waiting, {"waiting": "rules"})
    with pytest.raises(SetupError, match=r"context.editor"):
        answer(WaitingAction, command, redis_url=f"redis://127.0.0.1:{redis_server.port}/0")
    assert await redis.keys("*") == [b"mine"]
