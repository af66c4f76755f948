"""Crawl requests: a seed for the frontier.

Clients feed many seeds that differ in nothing but their URL. What such seeds have in common is
checked, and made into a profile, once; then only the URL is left to be looked at. Records whose
very bytes are the same around the URL are not even parsed: that is a third of the work.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest, RedisUnavailable
from crawlstream.model.effects import Seed
from crawlstream.model.egress.pools import UNREADABLE, PoolTable
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.recurring.validators import conditions_of
from crawlstream.model.request import Refusal, RequestLimits
from crawlstream.model.url import look_up_seed
from crawlstream.plugins.seeds import Pattern
from crawlstream.wire import jsontext
from crawlstream.wire.crawl_request import check_conditions, crawl_request
from crawlstream.wire.requests import SCRAPER
from crawlstream.wire.strict import parse_object
from crawlstream_frontier.egress.proxy_pools import ProxyPools
from kafka_monitor.plugins.built_in_handler import BuiltInHandler

PATTERNS = 1000
LONGEST_PATTERN = 2048
"""Bytes; with ``PATTERNS`` this bounds the cache of former seeds: a few MB at most."""

_URL = re.compile(
    rb'"url"\s*:\s*"([!#-\[\]-~]{1,2083})"'
    rb'(?:,"occasion":\{"schedule":"([A-Za-z0-9._-]{1,40})","at":([1-9]\d{0,10}),'
    rb'"n":(0|[1-9]\d{0,5})\})?'
)
"""A URL that stands in JSON as it is: neither escapes nor characters beyond ASCII. Behind it may be
the occasion, as redis-monitors write it."""
_POOLS_KNOWN_S = 2.0
_VARYING = frozenset({"url", "occasion", "etag", "last_modified"})
_NO_CONDITIONS: Mapping[str, str] = MappingProxyType({})
_STAND_IN = b"http://stand-in.invalid/"


class RequestedSeed(NamedTuple):
    """A seed as it was asked for."""

    url: str
    domain: str
    identity: str | None
    """Its fingerprint by GET, where it is known already."""
    pattern: Pattern
    occasion: Occasion | None = None
    conditions: Mapping[str, str] = _NO_CONDITIONS
    """Headers by which its page is asked for only if it has changed."""


class _KnownPools:
    """The proxy pools, as they were two seconds ago at the earliest."""

    def __init__(self, pools: ProxyPools | None) -> None:
        self._pools = pools
        self._table: PoolTable | None = None
        self._until = 0.0

    async def refusal(self, name: str, appid: str) -> str:
        """Return why an application may not name a pool, as a sentence; empty if it may.

        RedisUnavailable if this is not known yet.
        """
        if self._pools and time.monotonic() >= self._until:
            self._table = await self._pools.table(self._table)
            if self._table is None or self._table.default == UNREADABLE:
                raise RedisUnavailable("Redis has no proxy pools: a redis-monitor copies them")
            self._until = time.monotonic() + _POOLS_KNOWN_S
        return (self._table or PoolTable()).refusal(name, appid)


class ScraperHandler(BuiltInHandler, kind=SCRAPER):
    """Admits one seed, with the profile that all pages below it inherit."""

    replays = True

    def __init__(self, pools: ProxyPools | None = None) -> None:
        """``pools`` are those of the cluster; without them a seed can name none."""
        self._pools = _KnownPools(pools)
        self._patterns: dict[bytes, Pattern] = {}
        self._around: dict[tuple[bytes, bytes], Pattern] = {}

    def recognise(self, raw: bytes) -> RequestedSeed | None:
        """The seed in a record whose bytes are those of a former one but for URL and occasion."""
        match = _URL.search(raw)
        if match is None:
            return None
        pattern = self._around.get((raw[: match.start(1)], raw[match.end() :]))
        if pattern is None:
            return None
        url, schedule, at, n = match.groups()
        occasion = Occasion(schedule.decode(), int(at), int(n)) if schedule else None
        return RequestedSeed(*look_up_seed(url.decode()), pattern, occasion)

    def learn(self, raw: bytes, request: RequestedSeed, limits: RequestLimits) -> None:
        """Remember what stands around the URL, if the request can be read from that alone."""
        match = _URL.search(raw)
        if match is None or request.conditions or request.pattern.request.uuid is not None:
            return
        before, after = raw[: match.start(1)], raw[match.end() :]
        if len(before) + len(after) > LONGEST_PATTERN:
            return
        # The match may stand deeper, or be one of several: parsing with a stand-in shows it.
        rest = parse_object(before + _STAND_IN + b'"' + after, limits)
        if rest.get("url") == _STAND_IN.decode() and "occasion" not in rest:
            if len(self._around) >= PATTERNS:
                self._around.clear()
            self._around[before, after] = request.pattern

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> RequestedSeed:
        """Return the seed; InvalidRequest or InvalidUrl gives the reason why it cannot be crawled.

        ``limits`` are those of the process: the same in every call.
        """
        shape = jsontext.dumps({name: fields[name] for name in fields if name not in _VARYING})
        pattern = self._patterns.get(shape)
        conditions = conditions_of(fields.get("etag"), fields.get("last_modified"))
        if pattern is not None:
            check_conditions(fields)
            told = fields.get("occasion")
            occasion = Occasion(**told) if told else None
            return RequestedSeed(*look_up_seed(fields["url"]), pattern, occasion, conditions)
        request = crawl_request(fields, limits)
        pattern = Pattern.of(request)
        if len(shape) <= LONGEST_PATTERN and request.uuid is None:
            if len(self._patterns) >= PATTERNS:
                self._patterns.clear()
            self._patterns[shape] = pattern
        return RequestedSeed(*look_up_seed(fields["url"]), pattern, request.occasion, conditions)

    async def admit(self, request: RequestedSeed) -> None:
        """InvalidRequest if its application may not name its pool of proxies."""
        like = request.pattern.request
        if like.proxy is not None and (
            refusal := await self._pools.refusal(like.proxy, like.appid)
        ):
            raise InvalidRequest(Refusal.BAD_REQUEST, [f"$.proxy: {refusal}"])

    async def handle(self, request: RequestedSeed, record: Record) -> Seed:
        """The seed, named by the place of its record."""
        url, domain, identity, pattern, occasion, conditions = request
        return pattern.seed(url, domain, identity, record, occasion=occasion, conditions=conditions)
