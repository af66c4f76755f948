"""The blacklist, where its domains shall not even queue (``SCHEDULER_BACKLOG_BLACKLIST=false``)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import structlog

from crawling.page.page import Page
from crawlstream.errors import RedisUnavailable
from crawlstream.model.effects import Links
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.model.url import domain_key
from crawlstream.wire.stored import decode_entry
from crawlstream_frontier.throttle_rules import ThrottleRules

LOOK_EVERY_S = 1.0

log = structlog.get_logger()


class Blacklist:
    """Drops the links to blocked domains and hosts; without it they wait until they are unblocked.

    Seeds are admitted nevertheless: a person requested them.
    """

    def __init__(self, rules: ThrottleRules, *, drops: bool, is_asked: bool = False) -> None:
        """``is_asked``: others ask for the ``table`` as well."""
        self._rules = rules
        self._drops = drops
        self._follows = drops or is_asked
        self._dropped: ThrottleTable | None = None
        self._parted: frozenset[str] = frozenset()
        """Domains that have a blocked host, and are not blocked as a whole."""
        self.table: ThrottleTable | None = None
        """All rules, if anybody asks for them."""

    async def look(self) -> None:
        """Take over what the frontier goes by now; RedisUnavailable."""
        self.table = table = await self._rules.table() if self._follows else None
        self._dropped = table if table and table.blacklist and self._drops else None
        names = self._dropped.blacklist if self._dropped else frozenset()
        self._parted = frozenset(map(domain_key, names)) - names

    async def follow(self) -> None:
        """Look again and again; end at once where all links may wait."""
        while self._follows:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                await self.look()
            except RedisUnavailable as error:
                log.warning("rules", outcome="no_answer", error=str(error))

    def refuses(self, url: str) -> bool:
        """Return whether nothing may lead to an address."""
        return self._dropped is not None and self._dropped.block_of(url) is not None

    def screen(self, page: Page, groups: Sequence[Links]) -> Sequence[Links]:
        """The links that may enter; the others are counted as filtered (``blacklist``)."""
        if self._dropped is None:
            return groups
        before = sum(len(each.entries) for each in groups)
        kept = [group for each in groups if (group := self._screened(each, self._dropped)).entries]
        if dropped := before - sum(len(each.entries) for each in kept):
            page.filtered["blacklist"] += dropped
        return kept

    def _screened(self, group: Links, table: ThrottleTable) -> Links:
        if group.domain in table.blacklist:
            return replace(group, fingerprints=[], entries=[])
        if group.domain not in self._parted:
            return group
        pairs = zip(group.fingerprints, group.entries, strict=True)
        may_enter = [pair for pair in pairs if not table.block_of(decode_entry(pair[1]).url)]
        return replace(
            group,
            fingerprints=[fingerprint for fingerprint, _ in may_enter],
            entries=[entry for _, entry in may_enter],
        )
