"""Actions from the stream, replies to Kafka, and only then the acknowledgement."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import structlog

from crawlstream.boot.liveness import Liveness
from crawlstream.bus.outbound import Outbound
from crawlstream.bus.records import Out, RecordTooLarge
from crawlstream.errors import InvalidRequest
from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ActionRequest, StatsRequest, ZookeeperRequest
from crawlstream.plugins import Action, Reply
from crawlstream.retry import up_to
from crawlstream.stats.tally import Tally
from crawlstream.wire import replies, requests
from crawlstream_frontier.streams import Streams

COUNT = 20
"""Few, so that several monitors share a crowd, and one that dies leaves few tried in vain."""

BLOCK_MS = 1000
"""Longest wait for actions, and so for the notice of a stop."""

TRIES = 3
"""Attempts at an action that fails for an unknown reason."""

TAKEN_OVER_TIMES = 20
"""Number of takeovers after which an action is answered without a try: it kills its monitors.

The number is far above that of an action that was in progress by chance whenever a monitor died.
"""

PAUSE_S = 0.1
LONGEST_TEXT = 500
"""Characters of an error's own text; what it quotes may be huge."""

log = structlog.get_logger()


class ActionRunner:
    """Answers each action under its own uuid, at least once.

    Actions of one kind are done one after the other, in the order of the stream.
    """

    def __init__(
        self,
        streams: Streams,
        actions: Mapping[str, Action],
        *,
        outbound: Outbound,
        tally: Tally,
        liveness: Liveness,
    ) -> None:
        self._streams = streams
        self._actions = actions
        self._outbound = outbound
        self._tally = tally
        self._liveness = liveness

    async def step(self) -> float:
        """Take a few actions; answer and acknowledge all of them."""
        pending = await self._streams.actions(count=COUNT, block_ms=BLOCK_MS)
        names = {action.name for action in pending}
        lanes = [[action for action in pending if action.name == name] for name in names]
        async with self._streams.keeping([action.id for action in pending]):
            await asyncio.gather(*map(self._serve, lanes))
        return 0.0

    async def _serve(self, lane: Sequence[PendingAction]) -> None:
        records: list[Out] = []
        for action in lane:
            reply = await self._answer(action)
            records += self._outbound.reply(reply.appid, reply.body)
        ids = [action.id for action in lane]
        await self._liveness.retry(lambda: self._publish(records))
        await self._liveness.retry(lambda: self._streams.answered(ids))

    async def _answer(self, action: PendingAction) -> Reply:
        begun = time.monotonic()
        handler, reply = self._actions.get(action.name), None
        if handler is None:
            failure = f"unknown action: {action.name}"
        elif action.attempts > TAKEN_OVER_TIMES:
            failure = "gave up: the redis-monitor process died each time it ran this action"
        else:
            reply, failure = await self._try(handler, action)
            counted_as = getattr(handler, "counted_as", type(handler).__name__)
            self._tally.count("redis-monitor", "plugins", counted_as)
        self._tally.count("redis-monitor", "total")
        if reply is None:
            self._tally.count("redis-monitor", "fail")
            reply = _failed(action, failure)
        log.info(
            action.name,
            id=action.id,
            appid=reply.appid,
            outcome=failure or "answered",
            ms=round((time.monotonic() - begun) * 1000, 1),
        )
        return reply

    async def _try(self, handler: Action, action: PendingAction) -> tuple[Reply | None, str]:
        """The reply, or why there is none after three attempts; services are waited for."""

        def note(error: Exception, left: int) -> None:
            told = {"id": action.id, "error": repr(error), "tries_left": left}
            log.warning(action.name, outcome="failed", **told)

        async def attempt() -> Reply:
            reply: object = await self._liveness.retry(lambda: handler.answer(action))
            if not isinstance(reply, Reply):
                raise TypeError(f"the action returned {reply!r:.100}, not a Reply")
            return reply

        try:
            return await up_to(TRIES, attempt, pause_s=PAUSE_S, on_failure=note), ""
        except Exception as error:
            log.exception(action.name, id=action.id, outcome="failed")
            return None, f"{type(error).__name__}: {str(error)[:LONGEST_TEXT]}"

    async def _publish(self, records: Sequence[Out]) -> None:
        try:
            await self._outbound.send(records)
        except RecordTooLarge as error:
            log.exception("answer", outcome="too_large")
            cut = [_too_large(record) for record in error.records]
            await self._outbound.send(cut)


def _failed(action: PendingAction, failure: str) -> Reply:
    """The reply to an action that could not be done, in the shape that its kind of reply has."""
    now = int(time.time())
    try:
        request = requests.decode(action.request)
    except InvalidRequest:
        request = None
    if isinstance(request, ActionRequest):
        return Reply(request.appid, replies.action_error(request, failure, server_time=now))
    if isinstance(request, StatsRequest):
        return Reply(request.appid, replies.stats(request, {"error": failure}, server_time=now))
    if isinstance(request, ZookeeperRequest):
        return Reply(request.appid, replies.zookeeper(request, server_time=now, error=failure))
    ids = requests.readable_ids(action.request)
    body = replies.rejected(ids, reason="action_failed", errors=[f"$: {failure}"], server_time=now)
    return Reply(ids.get("appid", ""), body)


def _too_large(reply: Out) -> Out:
    """In place of a reply that no record can hold."""
    ids = requests.readable_ids(reply.value)
    problem = f"$: the reply has {len(reply.value)} bytes, more than a record may hold"
    body = replies.rejected(
        ids, reason="reply_too_large", errors=[problem], server_time=int(time.time())
    )
    return replace(reply, value=body)
