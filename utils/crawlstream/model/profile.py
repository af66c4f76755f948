"""Settings of a request that the pages below its seed inherit."""

from __future__ import annotations

from dataclasses import replace

from crawlstream.model.crawl import Profile
from crawlstream.model.credentials import scope_of
from crawlstream.model.request import CrawlRequest


def profile_of(request: CrawlRequest) -> Profile:
    """Return the settings that all pages below such a seed inherit, independent of its URL."""
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
        proxy=request.proxy,
        tls=request.tls,
        render=request.render,
        redirects=request.redirects,
        uuid=request.uuid,
    )


def profile_below(profile: Profile, url: str) -> Profile:
    """Return a profile with the fields that depend on the seed's URL.

    A crawl of single pages does not need the seed's URL in it: its pages share one profile.
    """
    is_bound = profile.cookie or profile.cookies or profile.headers
    if not profile.maxdepth and not is_bound:
        return profile
    return replace(
        profile,
        seed_url=url if profile.maxdepth else None,
        site=scope_of(url) if is_bound else None,
    )
