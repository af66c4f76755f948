"""Fields of a request to list the URLs of a site."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from crawlstream.model.web.linear import linear_problem, linear_set
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused
from rest_service.v2.scrapes.scrape_order import ScrapeOrder

MOST_LIMIT = 50_000
_NOT_SCRAPED = {"frontier"}

Source = Literal["robots", "sitemaps", "links", "frontier"]


class MapOrder(BaseModel):
    """A site whose URLs are wanted."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"url": "https://docs.example.com/"},
                {"url": "https://docs.example.com/", "match": "/guide/", "limit": 100, "wait": 0},
                {"url": "https://docs.example.com/", "sources": ["frontier"]},
            ]
        },
    )

    url: Annotated[str, Field(min_length=1, max_length=10_000)]
    """URL of a page of the site, http or https."""
    appid: Annotated[str, Field(min_length=3, max_length=40)] | None = None
    """Application; default: that of the API key, if it has one, otherwise ``scrape``. Pages that
    wait are by default those of all applications that the key may access."""
    sources: Annotated[list[Source], Field(min_length=1, max_length=4)] = [
        "robots",
        "sitemaps",
        "links",
    ]
    """``robots``: sitemaps that robots.txt names; ``sitemaps``: ``/sitemap.xml``, if it names none;
    ``links``: links of the page; ``frontier``: pages that wait in crawls, without a request to the
    site."""
    match: Annotated[str, Field(max_length=1000)] = ""
    """Regular expression (RE2) that a URL contains."""
    limit: Annotated[int, Field(ge=1, le=MOST_LIMIT)] = 5000
    """Most URLs that are returned."""
    wait: Annotated[float, Field(ge=0, le=60)] = 30
    """Seconds that the call waits for the list; 0: it returns the id at once."""
    max_age: Annotated[int, Field(ge=0, le=2_592_000)] = 3600
    """Seconds: files that were scraped in the last hour will do if they are at most so old."""

    @property
    def scrapes(self) -> bool:
        """Return whether files of the site are scraped for it."""
        return not _NOT_SCRAPED.issuperset(self.sources)

    def applications(self, client: Client) -> frozenset[str]:
        """Return the applications whose waiting pages are listed; empty: all."""
        return frozenset({self.appid}) if self.appid is not None else client.appids

    def check(self) -> None:
        """Raise RequestRefused (422) for an expression that RE2 does not take."""
        problem = linear_problem(self.match)
        if problem or (self.match and linear_set([self.match]) is None):
            raise RequestRefused(
                422, f"match: {problem or 'the expression is too large'}", code="invalid"
            )

    def scrape_of(self, url: str, appid: str | None) -> ScrapeOrder:
        """Return the scrape of one file of the site."""
        return ScrapeOrder(url=url, appid=appid, max_age=self.max_age, wait=0)
