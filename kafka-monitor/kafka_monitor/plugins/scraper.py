"""Crawl requests: a seed for the frontier.

Clients feed many seeds that differ in nothing but their URL. What such seeds have in common is
checked, and made into a profile, once; then only the URL is left to be looked at. Records whose
very bytes are the same around the URL are not even parsed: that is a third of the work.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from crawlstream.bus.records import Record
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.credentials import scope_of
from crawlstream.model.effects import Seed
from crawlstream.model.request import CrawlRequest, RequestLimits
from crawlstream.model.url import fingerprint, look_up_seed
from crawlstream.wire import jsontext, stored
from crawlstream.wire.requests import SCRAPER
from crawlstream.wire.seeds import crawl_request
from crawlstream.wire.strict import parse_object
from kafka_monitor.plugins.door import Bundled

PATTERNS = 1000
LONGEST_PATTERN = 2048
"""Bytes; with ``PATTERNS`` of them it is what is remembered of former seeds: a few MB at most."""

_URL = re.compile(rb'"url"\s*:\s*"([!#-\[\]-~]{1,2083})"')
"""A URL that stands in JSON as it is: neither escapes nor characters beyond ASCII."""
_STAND_IN = b"http://stand-in.invalid/"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A request whose URL does not matter: many seeds are like it."""

    request: CrawlRequest
    crawl: CrawlKey
    profile: Profile
    is_plain: bool
    """Seeds are fetched by GET, without a body."""


class Given(NamedTuple):
    """A seed as it was asked for."""

    url: str
    domain: str
    identity: str | None
    """Its fingerprint by GET, where it is known already."""
    pattern: Pattern


class ScraperHandler(Bundled, kind=SCRAPER):
    """Admits one seed, with the profile that all pages below it inherit."""

    replays = True

    def __init__(self) -> None:
        self._patterns: dict[bytes, Pattern] = {}
        self._around: dict[tuple[bytes, bytes], Pattern] = {}

    def recognise(self, raw: bytes) -> Given | None:
        """The seed in a record whose bytes are those of a former one but for the URL."""
        match = _URL.search(raw)
        if match is None:
            return None
        pattern = self._around.get((raw[: match.start(1)], raw[match.end(1) :]))
        return None if pattern is None else Given(*look_up_seed(match[1].decode()), pattern)

    def learn(self, raw: bytes, request: Given, limits: RequestLimits) -> None:
        """Remember what stands around the URL, if the request can be read from that alone."""
        match = _URL.search(raw)
        if match is None or request.pattern.request.uuid is not None:
            return
        before, after = raw[: match.start(1)], raw[match.end(1) :]
        if len(before) + len(after) > LONGEST_PATTERN:
            return
        # What was found may stand deeper, or be one of several: a stand-in tells.
        if parse_object(before + _STAND_IN + after, limits).get("url") == _STAND_IN.decode():
            if len(self._around) >= PATTERNS:
                self._around.clear()
            self._around[before, after] = request.pattern

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> Given:
        """The seed; InvalidRequest or InvalidUrl tells why it cannot be crawled.

        ``limits`` are those of the process: the same in every call.
        """
        shape = jsontext.dumps({name: fields[name] for name in fields if name != "url"})
        pattern = self._patterns.get(shape)
        if pattern is not None:
            return Given(*look_up_seed(fields["url"]), pattern)
        request = crawl_request(fields, limits)
        pattern = Pattern(
            request,
            request.crawl,
            profile_of(request),
            is_plain=request.method == "GET" and request.body is None,
        )
        if len(shape) <= LONGEST_PATTERN and request.uuid is None:
            if len(self._patterns) >= PATTERNS:
                self._patterns.clear()
            self._patterns[shape] = pattern
        return Given(*look_up_seed(fields["url"]), pattern)

    async def handle(self, request: Given, record: Record) -> Seed:
        """The seed, named by the place of its record."""
        url, domain, identity, pattern = request
        like = pattern.request
        origin = f"{record.topic}-{record.partition}-{record.offset}"
        if pattern.is_plain:
            identity, entry = identity or fingerprint(url), stored.encode_seed(url, origin)
        else:
            body = (like.body or "").encode()
            identity = fingerprint(url, like.method, body)
            entry = stored.encode_entry(
                Entry(url=url, origin=origin, method=like.method, body=like.body)
            )
        return Seed(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            crawl=pattern.crawl,
            domain=domain,
            priority=like.priority,
            fingerprint=identity,
            entry=entry,
            profile=_profile_for(request),
            expires=like.expires,
            not_before=like.not_before,
        )


def _profile_for(given: Given) -> Profile:
    """The pattern's profile, with what depends on the seed.

    A crawl of single pages has no use for the seed's URL in there: its pages share one profile.
    """
    profile = given.pattern.profile
    is_bound = profile.cookie or profile.cookies or profile.headers
    if not profile.maxdepth and not is_bound:
        return profile
    return replace(
        profile,
        seed_url=given.url if profile.maxdepth else None,
        site=scope_of(given.url) if is_bound else None,
    )


def profile_of(request: CrawlRequest) -> Profile:
    """What every page below seeds like this one inherits, whatever their URL."""
    return Profile(
        attrs=request.attrs,
        maxdepth=request.maxdepth,
        domain_max_pages=request.domain_max_pages,
        max_pages=request.max_pages,
        allowed_domains=request.allowed_domains,
        allow_regex=request.allow_regex,
        deny_regex=request.deny_regex,
        deny_extensions=request.deny_extensions,
        useragent=request.useragent,
        cookie=request.cookie,
        cookies=request.cookies,
        headers=request.headers,
        obey_robots=request.obey_robots,
        uuid=request.uuid,
    )
