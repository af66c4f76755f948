"""Sites of pages, while rules split the hosts of a domain into sites.

The frontier keeps entries by site, but cannot read them; the caller that puts them can. An entry
that was put by another map than the one in force is found when it is leased: every answer has the
version of the map, and a worker with another version reads the rules before it uses its new leases,
and moves those that were granted under a wrong site. So no request is sent by a rule of another
site, regardless of who put it and when; putting it correctly only saves the grant.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

import structlog

from crawlstream.errors import InvalidUrl, RedisUnavailable
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Seed
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable, site_of
from crawlstream.model.web.throttle_groups import Groups
from crawlstream.wire import stored
from crawlstream_frontier.throttle_rules import ThrottleRules

log = structlog.get_logger()

HAS_GATES = b" ="
"""Begins the end of a version since there have been groups; see ``lua/includes/gates.lua``."""


class HostSites:
    """The map of sites that one caller uses; until it knows one, every domain is a site."""

    def __init__(self, rules: ThrottleRules) -> None:
        self._rules = rules
        self._table: ThrottleTable | None = None
        self._version = b""
        self._parted: frozenset[str] = frozenset()

    def site_of(self, place: str) -> str:
        """Return the site that counts the requests to a URL or host, by the known map."""
        return site_of(self._table, place)

    @property
    def groups(self) -> Groups[ThrottleRule] | None:
        """Return the limits that domains have in common, by the known rules; None: none."""
        return self._table.groups if self._table else None

    async def follow(self, version: bytes) -> None:
        """Load the map of this version of the rules, or of a later one; RedisUnavailable.

        Without a version no table of this Redis has ever split a domain.
        """
        version = version.partition(HAS_GATES)[0]
        if version == self._version:
            return
        if not version:
            self._table, self._version, self._parted = None, b"", frozenset()
            return
        table = await self._rules.table()
        if table is None:
            raise RedisUnavailable("Redis has lost the throttle rules in the meantime")
        self._table = table
        self._version = b"%d %d" % (table.czxid, table.mzxid)
        self._parted = frozenset(table.parted().values())

    def moves(self, leases: Sequence[Lease]) -> Mapping[str, list[object]]:
        """Return, by token, the releases of leases granted under another site than their own."""
        moves: dict[str, list[object]] = {}
        for lease in leases:
            site = self._site_of_url(lease.entry.url) or lease.domain
            if site != lease.domain:
                moves[lease.token] = [lease.token, 0, -1, False, 0, 0, site]
        if moves:
            log.info("release", outcome="moved", entries=len(moves))
        return moves

    def of_seed(self, seed: Seed) -> str | None:
        """Return the site of a seed; None if it is its domain."""
        return self._of_entry(seed.domain, seed.entry) if seed.domain in self._parted else None

    def file(self, links: Sequence[Links]) -> Sequence[Links]:
        """Return the links with those of a split domain in one group for each of its sites."""
        if not any(group.domain in self._parted for group in links):
            return links
        return [part for group in links for part in self._file(group)]

    def _file(self, group: Links) -> Sequence[Links]:
        if group.domain not in self._parted:
            return [group]
        parts: dict[str | None, tuple[list[str], list[bytes]]] = defaultdict(lambda: ([], []))
        for fingerprint, entry in zip(group.fingerprints, group.entries, strict=True):
            fingerprints, entries = parts[self._of_entry(group.domain, entry)]
            fingerprints.append(fingerprint)
            entries.append(entry)
        return [
            replace(group, site=site, fingerprints=fingerprints, entries=entries)
            for site, (fingerprints, entries) in parts.items()
        ]

    def _of_entry(self, domain: str, entry: bytes) -> str | None:
        site = self._site_of_url(stored.decode_entry(entry).url)
        return None if site == domain else site

    def _site_of_url(self, url: str) -> str | None:
        """Return the site of an entry; None: unknown, or its URL is not valid, so it will fail."""
        with suppress(InvalidUrl):
            return self._table.site_of(url) if self._table else None
        return None
