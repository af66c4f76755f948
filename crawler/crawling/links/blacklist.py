"""The blacklist, where its domains shall not even queue (``SCHEDULER_BACKLOG_BLACKLIST=false``)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from crawling.page.page import Page
from crawlstream.errors import RedisUnavailable
from crawlstream.frontier.throttle_rules import ThrottleRules
from crawlstream.model.effects import Links
from crawlstream.model.throttle import ThrottleTable

LOOK_EVERY_S = 1.0

log = structlog.get_logger()


class Blacklist:
    """Drops the links into blocked domains; without it they wait until somebody unblocks these.

    Seeds are let in all the same: a person asked for them.
    """

    def __init__(self, rules: ThrottleRules, *, drops: bool, is_asked: bool = False) -> None:
        """``is_asked``: others ask for the ``table`` as well."""
        self._rules = rules
        self._drops = drops
        self._follows = drops or is_asked
        self._domains: frozenset[str] = frozenset()
        self.table: ThrottleTable | None = None
        """All rules, if anybody asks for them."""

    async def look(self) -> None:
        """Take over what the frontier goes by now; RedisUnavailable."""
        self.table = table = await self._rules.table() if self._follows else None
        self._domains = table.blacklist if table and self._drops else frozenset()

    async def follow(self) -> None:
        """Look again and again; end at once where all links may wait."""
        while self._follows:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except RedisUnavailable as error:
                log.warning("rules", outcome="no_answer", error=str(error))

    def screen(self, page: Page, groups: Sequence[Links]) -> Sequence[Links]:
        """The links that may enter; the others are counted as filtered (``blacklist``)."""
        if not self._domains:
            return groups
        kept = [group for group in groups if group.domain not in self._domains]
        if dropped := sum(len(each.entries) for each in groups if each.domain in self._domains):
            page.filtered["blacklist"] += dropped
        return kept
