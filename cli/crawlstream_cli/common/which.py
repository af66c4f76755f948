"""Which crawl a person means who types its crawlid, and who would crawl for it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated

import typer

from crawlstream.boot.settings import Settings
from crawlstream.called import COMMAND
from crawlstream.errors import CrawlstreamError, RedisUnavailable
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.state import CrawlState
from crawlstream.model.words import condition
from crawlstream.stats.heartbeat import living_in
from crawlstream.wire import views
from crawlstream_cli.common.client import cluster_frontier
from crawlstream_cli.common.cluster_requests import APPID

SPIDER = "link"
"""The spider that is meant unless another one is named."""

AppId = Annotated[
    str | None,
    typer.Option("--appid", help="Application id (appid), if several have such a crawl."),
]
Spider = Annotated[
    str | None, typer.Option("--spider", "-s", help="Spider, if several have such a crawl.")
]


async def which_crawl(
    settings: Settings, crawlid: str, *, appid: str | None, spider: str | None
) -> CrawlKey:
    """Return the only crawl with this id; CrawlstreamError if several fit.

    If none is known yet, or Redis does not answer, return the crawl of the default application and
    spider.
    """
    named = CrawlKey(spider or SPIDER, appid or APPID, crawlid)
    if appid and spider:
        return named
    try:
        async with cluster_frontier(settings) as frontier:
            crawls = await frontier.queries.crawls(appid=appid, spiderid=spider)
            known = [state.crawl for state in crawls]
    except RedisUnavailable:
        return named
    found = [crawl for crawl in known if crawl.crawlid == crawlid]
    if len(found) > 1:
        named_so = ", ".join(f"--appid {each.appid} --spider {each.spiderid}" for each in found)
        raise CrawlstreamError(f"several crawls are called {crawlid}; choose one: {named_so}")
    return found[0] if found else named


def unknown_crawl(crawlid: str, appid: str | None, spider: str | None) -> CrawlstreamError:
    """Return the error for a crawl that is unknown."""
    of = " of application " + appid if appid else ""
    by = " with spider " + spider if spider else ""
    return CrawlstreamError(
        f"unknown crawl {crawlid}{of}{by}: `{COMMAND} crawls` lists the known ones; one that"
        " was just fed appears as soon as a kafka-monitor has read it"
    )


async def crawled_spiders(settings: Settings) -> Collection[str] | None:
    """The spiders of the crawlers that are running; None if Redis does not answer."""
    try:
        async with cluster_frontier(settings) as frontier:
            heard = await living_in(frontier.heartbeats)
    except RedisUnavailable:
        return None
    return {process.spider for process in heard if process.kind == "crawler"}


async def with_crawlers(
    settings: Settings, crawls: Iterable[CrawlState]
) -> tuple[Sequence[CrawlState], Collection[str] | None]:
    """Crawls, with whom those wait for that seem to lack a crawler; and ``crawled_spiders``."""
    told, spiders = [*crawls], await crawled_spiders(settings)
    if spiders is None:
        return told, None
    async with cluster_frontier(settings) as frontier:
        return await frontier.queries.with_lanes(told, spiders), spiders


async def condition_of(settings: Settings, crawl: CrawlKey) -> Mapping[str, object]:
    """The ``badge`` of a crawl, its ``problem`` and ``waits_for``; {} if Redis does not answer."""
    try:
        async with cluster_frontier(settings) as frontier:
            states = await frontier.queries.states([crawl])
        told, spiders = await with_crawlers(settings, states.values())
    except RedisUnavailable:
        return {}
    return {
        name: value
        for state in told
        for name, value in {
            "badge": condition.badge(state, spiders),
            **views.condition_of(state, spiders),
        }.items()
    }
