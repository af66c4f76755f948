"""Visits as crawl requests: each page of a memory that is due is a seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from crawlstream.errors import InvalidRequest
from crawlstream.model.credentials import identify
from crawlstream.model.recurring.schedule import Occasion
from crawlstream.model.request import Refusal
from crawlstream.wire import jsontext
from crawlstream.wire.requests import decode

_OF_A_VISIT = (
    *("url", "appid", "crawlid", "maxdepth", "expires", "not_before", "remember", "uuid"),
    *("occasion", "etag", "last_modified"),
)
"""Fields of a crawl request that the page or the visit determines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """Page to fetch."""

    number: int
    """Number among the pages that are fed at once."""
    url: str
    appid: str
    spiderid: str
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class VisitCrawl:
    """Common fields of the visits that are fed at once."""

    crawlid: str
    schedule: str
    """Schedule of their occasions."""
    at: int
    """Epoch seconds; distinguishes them from all others of the schedule."""
    expires: int
    """Epoch seconds after which they are no longer fetched."""
    more: Mapping[str, Any]
    """Other fields of their crawl requests."""


def encode_visits(crawl: VisitCrawl, visits: Iterable[Visit]) -> Iterator[bytes]:
    """Yield the crawl requests of visits, in order; a repetition yields the same occasions."""
    for visit in visits:
        yield jsontext.dumps(
            {
                "url": visit.url,
                "occasion": asdict(Occasion(crawl.schedule, crawl.at, visit.number)),
                "appid": visit.appid,
                "crawlid": crawl.crawlid,
                "spiderid": visit.spiderid,
                "maxdepth": 0,
                "expires": crawl.expires,
                **_validators(visit),
                **crawl.more,
            }
        )


def _validators(visit: Visit) -> Mapping[str, str]:
    both = {"etag": visit.etag, "last_modified": visit.last_modified}
    return {name: value for name, value in both.items() if value}


def _credentials(more: Mapping[str, Any]) -> list[str]:
    """Return problems with fields that identify the client: each site would receive them."""
    headers = more.get("headers")
    names = [name.lower() for name in headers] if isinstance(headers, Mapping) else ()
    told = [name for name in ("cookie", "cookies") if more.get(name)]
    told += ["headers"] if identify(names) else []
    return [
        f"$.{name}: credentials are for one site, and visits go to all that are known"
        for name in told
    ]


def check_crawl(more: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for fields that a visit cannot have."""
    _refuse([f"$.{name}: a visit has it of its own" for name in _OF_A_VISIT if name in more])
    _refuse(_credentials(more))
    crawl = VisitCrawl(crawlid="check", schedule="check", at=1, expires=0, more=more)
    page = Visit(number=0, url="http://example.com/", appid="check", spiderid="link")
    for value in encode_visits(crawl, [page]):
        decode(value)


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        raise InvalidRequest(Refusal.BAD_REQUEST, list(problems))
