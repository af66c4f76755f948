"""Crawl requests: a seed for the frontier.

Clients feed many seeds that differ in nothing but their URL. What such seeds have in common is
checked, and made into a profile, once; then only the URL is left to be looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from crawlstream.bus.records import Record
from crawlstream.model.crawl import CrawlKey, Entry, Profile
from crawlstream.model.effects import Seed
from crawlstream.model.request import CrawlRequest, RequestLimits
from crawlstream.model.url import domain_key, fingerprint, host_of, seed_url
from crawlstream.wire import jsontext, stored
from crawlstream.wire.requests import SCRAPER
from crawlstream.wire.seeds import crawl_request
from kafka_monitor.plugins.door import Bundled

PATTERNS = 1000
LONGEST_PATTERN = 2048
"""Bytes; with ``PATTERNS`` of them it is what is remembered of former seeds: a few MB at most."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A request whose URL does not matter: many seeds are like it."""

    request: CrawlRequest
    crawl: CrawlKey
    profile: Profile
    is_plain: bool
    """Seeds are fetched by GET, without a body."""


@dataclass(frozen=True, slots=True)
class Given:
    """A seed as it was asked for."""

    url: str
    pattern: Pattern


class ScraperHandler(Bundled, kind=SCRAPER):
    """Admits one seed, with the profile that all pages below it inherit."""

    replays = True

    def __init__(self) -> None:
        self._patterns: dict[bytes, Pattern] = {}

    def build(self, fields: Mapping[str, Any], limits: RequestLimits) -> Given:
        """The seed; InvalidRequest or InvalidUrl tells why it cannot be crawled.

        ``limits`` are those of the process: the same in every call.
        """
        shape = jsontext.dumps({name: fields[name] for name in fields if name != "url"})
        pattern = self._patterns.get(shape)
        if pattern is not None:
            return Given(seed_url(fields["url"]), pattern)
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
        return Given(request.url, pattern)

    async def handle(self, request: Given, record: Record) -> Seed:
        """The seed, named by the place of its record."""
        url, pattern = request.url, request.pattern
        like = pattern.request
        domain = domain_key(host_of(url))
        origin = f"{record.topic}-{record.partition}-{record.offset}"
        if pattern.is_plain:
            identity, entry = fingerprint(url), stored.encode_seed(url, origin)
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
            profile=_profile_for(request, domain),
            expires=like.expires,
            not_before=like.not_before,
        )


def _profile_for(given: Given, domain: str) -> Profile:
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
        site=domain if is_bound else None,
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
