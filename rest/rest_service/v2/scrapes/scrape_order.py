"""Fields of a request to scrape a URL, and the seed that is fed for it."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from crawlstream.model.egress.render import render_wish
from crawlstream.model.request import CrawlRequest, RequestLimits
from crawlstream.wire import jsontext, requests
from crawlstream_frontier.scrapes.scrape_names import ScrapeKind, ScrapeName
from rest_service.http.access import Client
from rest_service.http.envelope import RequestRefused

DEFAULT_APPID = "scrape"
MOST_CHARS = 2_000_000
_PRIORITY = 100
_COPIED = ("headers", "cookie", "cookies", "useragent", "proxy", "tls", "obey_robots")
SCREENSHOT = "screenshot"
"""A format, and the option of a browser that it needs."""
_PRIVATE = ("headers", "cookie", "cookies")
_LATER = {"json"}

Format = Literal["markdown", "text", "html", "links", "metadata", "raw", "screenshot", "json"]
Formats = Annotated[list[Format], Field(min_length=1, max_length=7)]


@dataclass(frozen=True, slots=True)
class PageShape:
    """How a page is answered."""

    formats: Sequence[str]
    main: bool
    """True: only the main content."""
    max_chars: int

    @classmethod
    def of(cls, formats: Sequence[str], *, main: bool, max_chars: int) -> PageShape:
        """Return a shape; RequestRefused (422) names a format that does not exist yet."""
        if lacking := sorted(_LATER.intersection(formats)):
            raise RequestRefused(
                422,
                f"The format {lacking[0]} is not available yet.",
                code="format_not_available",
            )
        return cls(tuple(dict.fromkeys(formats)), main, max_chars)


class ScrapeOrder(BaseModel):
    """A URL to fetch now, and how to answer it."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"url": "https://example.com/"},
                {"url": "https://example.com/", "formats": ["links", "metadata"], "wait": 0},
            ]
        },
    )

    url: Annotated[str, Field(min_length=1, max_length=10_000)]
    """URL, http or https."""
    appid: Annotated[str, Field(min_length=3, max_length=40)] | None = None
    """Application; default: that of the API key, if it has one, otherwise ``scrape``."""
    formats: Formats = ["markdown", "metadata"]
    """``raw``: the body as in a result; ``screenshot``: of the part that ``render`` names, by
    default ``viewport``. ``json`` is not available yet."""
    main: bool = True
    """Only the main content of a page in ``markdown``, ``text`` and ``html``."""
    max_chars: Annotated[int, Field(ge=1000, le=MOST_CHARS)] = 200_000
    """Maximum length of each text; a longer one is cut at the end of a block."""
    wait: Annotated[float, Field(ge=0, le=60)] = 20
    """Seconds that the call waits for the page; 0: it returns the id at once."""
    deadline: Annotated[int, Field(ge=30, le=3600)] = 120
    """Seconds after which the page is not fetched any more, rounded up to 2, 15 or 60 minutes."""
    render: bool | Literal["auto"] | dict[str, Any] = False
    """True, or options: in a browser, as for a crawl; ``actions`` are done in the page. ``auto``:
    if the page needs a browser."""
    max_age: Annotated[int, Field(ge=0, le=2_592_000)] = 0
    """Seconds: a page of the last hour that is at most so old is returned instead of a new one."""
    headers: Any = None
    """This field and the next ones: as for a crawl."""
    cookie: Any = None
    cookies: Any = None
    useragent: Any = None
    proxy: Any = None
    tls: Any = None
    obey_robots: Any = None

    @property
    def shape(self) -> PageShape:
        """Return how the page is answered; RequestRefused (422)."""
        return PageShape.of(self.formats, main=self.main, max_chars=self.max_chars)

    def check(self) -> None:
        """Raise RequestRefused (422) for what no process can do yet."""
        PageShape.of(self.formats, main=self.main, max_chars=self.max_chars)

    @property
    def wish(self) -> Mapping[str, Any] | None:
        """The ``render`` of its seed; None: no browser is needed."""
        wish = render_wish(self.render)
        if SCREENSHOT in self.formats:
            return {SCREENSHOT: "viewport", **(wish or {})}
        return wish

    @property
    def kind(self) -> ScrapeKind:
        """Kind of its page, which says whether it may answer other scrapes."""
        is_own = any(getattr(self, each) is not None for each in _COPIED)
        wish = self.wish
        if is_own or wish:
            return ScrapeKind.PRIVATE
        return ScrapeKind.PLAIN if wish is None else ScrapeKind.RENDERED

    def appid_for(self, client: Client) -> str:
        """Return the application; RequestRefused (403) if the client may not access it."""
        appid = self.appid or DEFAULT_APPID
        if self.appid is None and len(client.appids) == 1:
            (appid,) = client.appids
        client.check(appid)
        return appid

    def seed(self, appid: str, name: ScrapeName) -> Mapping[str, Any]:
        """Return the crawl request that is fed for it."""
        copied = {each: getattr(self, each) for each in _COPIED if getattr(self, each) is not None}
        return {
            **copied,
            "url": self.url,
            "appid": appid,
            "crawlid": name.crawlid,
            "spiderid": "link",
            "priority": _PRIORITY,
            "maxdepth": 0,
            "remember": 0,
            "expires": name.expires,
            "uuid": name.id,
            "answer": "page",
            **({} if (wish := self.wish) is None else {"render": wish}),
        }

    def equal(self, seed: CrawlRequest, name: ScrapeName) -> Hashable:
        """Return a value that is equal for scrapes that one page answers; None: it is private."""
        if any(getattr(self, each) for each in _PRIVATE):
            return None
        copied = (self.wish, *(getattr(self, each) for each in _COPIED))
        class_ = name.crawlid.rpartition("-")[2]
        return (seed.appid, seed.url, class_, jsontext.dumps(copied))


def as_crawl(seed: Mapping[str, Any], limits: RequestLimits) -> CrawlRequest:
    """Return the request in a seed; InvalidRequest says what is wrong with it."""
    request = requests.decode(jsontext.dumps(seed), limits=limits)
    assert isinstance(request, CrawlRequest)
    return request
