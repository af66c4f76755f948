"""zookeeper: edits of the throttle rules, written to their node; the watch brings them back."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import cast

from crawlstream.errors import BadTable, Conflict, ZooKeeperUnavailable
from crawlstream.model.effects import PendingAction
from crawlstream.model.request import ZookeeperRequest
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.plugins import Context, Reply
from crawlstream.wire import replies, requests

CANNOT_STORE = "Unable to store Zookeeper config"
"""The predecessor's own words, which its clients may look for; the cause follows them."""

AWAY_S = 5.0
"""After a ZooKeeper that did not answer, edits are refused at once for so long: each would take
seconds to fail, and the next one in the stream waits for it."""


class ZookeeperMonitor:
    """Answers the four edits: a rule set or removed, a domain blocked or unblocked."""

    name = "zookeeper"

    def __init__(self, context: Context) -> None:
        self._editor = context.editor
        self._away_until = 0.0

    async def answer(self, action: PendingAction) -> Reply:
        """Make the edit; what cannot be made is answered, and nothing is changed."""
        request = cast(ZookeeperRequest, requests.decode(action.request))
        error = await self._edit(request)
        body = replies.zookeeper(request, server_time=int(time.time()), error=error)
        return Reply(request.appid, body)

    async def _edit(self, request: ZookeeperRequest) -> str | None:
        if request.action == "domain-update" and (request.hits <= 0 or request.window <= 0):
            return "domain-update needs hits and window greater than 0"
        if time.monotonic() < self._away_until:
            return f"{CANNOT_STORE}: ZooKeeper does not answer"
        try:
            await self._write(request)
        except ZooKeeperUnavailable as error:
            self._away_until = time.monotonic() + AWAY_S
            return f"{CANNOT_STORE}: {error}"
        except (BadTable, Conflict) as error:
            return f"{CANNOT_STORE}: {error}"
        return None

    def _write(self, request: ZookeeperRequest) -> Awaitable[ThrottleTable]:
        editor, domain = self._editor, request.domain
        if request.action == "domain-update":
            return editor.set_rule(
                domain, hits=request.hits, window=request.window, scale=request.scale
            )
        edits = {
            "domain-remove": editor.remove_rule,
            "blacklist-update": editor.block,
            "blacklist-remove": editor.unblock,
        }
        return edits[request.action](domain)
