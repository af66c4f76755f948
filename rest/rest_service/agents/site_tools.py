"""Tools that explain the limits of a site, and why a URL has no page."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

from pydantic import Field

from rest_service.agents.crawl_tools import AppId, OwnCrawlId
from rest_service.agents.tool_table import AgentTool, ToolAnswer, ToolArguments, ToolResult
from rest_service.agents.v2_client import V2Client

_CRAWLS, _RECORDS = 20, 5
"""Crawls, and records of each kind, in the result of one call."""


class ThrottleArguments(ToolArguments):
    """A site."""

    domain: Annotated[
        str,
        Field(
            min_length=1,
            max_length=255,
            pattern=r"^[^/\s]+$",
            description="Host or domain, as in example.com.",
        ),
    ]


class SiteLimits(ToolResult):
    """Limits of a site, and its next possible request. Fields of the rule are null if unknown."""

    domain: str
    """The site that these limits are for."""
    source: str | None
    """`own` rule, of a domain `above`, `default`, or `blacklist`."""
    hits: int | None
    """Requests per window; 0: nothing is requested."""
    window_s: float | None
    concurrency: int | None
    """Requests at the same time."""
    paused_until: int | None
    """Epoch seconds; 0: not paused."""
    next_ms: int
    """Milliseconds until its next possible request."""
    spacing_ms: int
    """Milliseconds between two requests."""
    spacing_by: str
    """Source of this spacing: `rule`, `robots`, `answers` (it backs off) or `gentle` (latency)."""
    crawl_delay_ms: int
    """As its robots.txt requires."""
    strikes: int
    """Refusals (429, 503) since its last answer."""
    silences: int
    """Requests without a connection, one after another."""
    is_outside_hours: bool
    """True if its robots.txt wants no visits at this time of day."""


class WhyArguments(ToolArguments):
    """A URL, and the crawl that should have fetched it."""

    url: Annotated[str, Field(min_length=1, max_length=10_000, description="In any spelling.")]
    crawlid: Annotated[
        OwnCrawlId | None,
        Field(description="Without it: all crawls that have admitted the URL."),
    ] = None
    appid: AppId = None


class UrlInCrawl(ToolResult):
    """Where a URL is in a crawl."""

    appid: str
    crawlid: str
    spiderid: str
    run: int
    state: str
    """State of the crawl."""
    where: str
    summary: str
    """Sentence that says where it is."""


class UrlResult(ToolResult):
    """A page that was fetched."""

    appid: str | None
    crawlid: str | None
    run: int | None
    response_url: str | None
    status_code: int | None
    timestamp: str | None
    parent_url: str | None


class UrlFailure(ToolResult):
    """An event about the URL: `page_failed`, or `pages_skipped`."""

    event: str | None
    reason: str | None
    attempts: int | None
    appid: str | None
    crawlid: str | None
    run: int | None
    parent: str | None


class WhyResult(ToolResult):
    """A URL in crawls, its latest results and failures, and the limits of its site."""

    url: str
    crawls: list[UrlInCrawl]
    limits: str
    """Limits of its site, and its next possible request; empty if the key may not see them."""
    results: list[UrlResult]
    failures: list[UrlFailure]
    is_whole: bool
    """False: only the latest results and events were searched."""


async def _throttle(client: V2Client, wanted: ThrottleArguments) -> ToolAnswer:
    answer = await client.get(f"/v2/domains/{quote(wanted.domain, safe='')}")
    return ToolAnswer(SiteLimits.of(answer.data))


async def _why(client: V2Client, wanted: WhyArguments) -> ToolAnswer:
    appid = wanted.appid or (client.appid if wanted.crawlid else None)
    answer = await client.get("/v2/frontier", url=wanted.url, appid=appid, crawlid=wanted.crawlid)
    told = answer.data
    result = WhyResult(
        url=told["url"],
        crawls=[UrlInCrawl.of({**one, **one["crawl"]}) for one in told["crawls"][:_CRAWLS]],
        limits=told["limits"],
        results=[UrlResult.of(one) for one in told["results"][:_RECORDS]],
        failures=[UrlFailure.of(one) for one in told["failures"][:_RECORDS]],
        is_whole=told["is_whole"],
    )
    return ToolAnswer(result)


THROTTLE_SHOW = AgentTool(
    name="throttle_show",
    title="Limits of a site",
    about=(
        "Return how often a site is requested, why, and when its next request is possible. These"
        " limits are for all crawls and scrapes together; only a person can change them."
    ),
    arguments=ThrottleArguments,
    result=SiteLimits,
    run=_throttle,
)
WHY_NOT_CRAWLED = AgentTool(
    name="why_not_crawled",
    title="Why a URL has no page",
    about=(
        "Return where a URL is in a crawl: queued, delayed, in flight, done, failed or never"
        " admitted; with its latest results and failures, and the limits of its site. With"
        " `crawlid`, the summary also counts by reason the links that this crawl did not follow."
    ),
    arguments=WhyArguments,
    result=WhyResult,
    run=_why,
)
