"""Crawl requests: a seed for the frontier."""

from __future__ import annotations

from crawlstream.bus.records import Record
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import Seed
from crawlstream.model.request import CrawlRequest
from crawlstream.model.url import domain_key, fingerprint, host_of
from crawlstream.wire import stored
from crawlstream.wire.requests import SCRAPER
from kafka_monitor.plugins.door import Bundled


class ScraperHandler(Bundled, kind=SCRAPER):
    """Admits one seed, with the profile that all pages below it inherit."""

    async def handle(self, request: CrawlRequest, record: Record) -> Seed:
        """The seed, named by the place of its record."""
        domain = domain_key(host_of(request.url))
        entry = Entry(
            url=request.url,
            origin=f"{record.topic}-{record.partition}-{record.offset}",
            method=request.method,
            body=request.body,
        )
        body = (request.body or "").encode()
        return Seed(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            crawl=request.crawl,
            domain=domain,
            priority=request.priority,
            fingerprint=fingerprint(request.url, request.method, body),
            entry=stored.encode_entry(entry),
            profile=profile_of(request, domain),
            expires=request.expires,
            not_before=request.not_before,
        )


def profile_of(request: CrawlRequest, domain: str) -> Profile:
    """What every page below the seed inherits.

    A crawl of single pages has no use for the seed's URL in there: its pages share one profile.
    """
    is_bound = request.cookie or request.cookies or request.headers
    return Profile(
        seed_url=request.url if request.maxdepth else None,
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
        site=domain if is_bound else None,
        obey_robots=request.obey_robots,
        uuid=request.uuid,
    )
