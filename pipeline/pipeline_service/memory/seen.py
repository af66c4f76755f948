"""News of a URL in a record: it was there, unchanged, gone, elsewhere, or failed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, NamedTuple

from crawlstream.errors import InvalidUrl
from crawlstream.model.delivered import Delivered
from crawlstream.model.event import PageFailed
from crawlstream.model.url import canonical, domain_key, host_of, link_url
from pipeline_service.memory.kept_text import KeptText
from pipeline_service.spec.config import GONE

_UNMODIFIED, _MOVED = 304, 301
_LONGEST_VALIDATOR = 1_000
"""Characters; a seed takes no more."""
_ALL_WELL, _ELSEWHERE = 2, 3


class Sight(StrEnum):
    """How a page was found."""

    THERE = "there"
    UNMODIFIED = "unmodified"
    GONE = "gone"
    MOVED = "moved"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """News of one URL in one record."""

    key: str
    appid: str
    url: str
    """Canonical."""
    domain: str
    spiderid: str
    id: str
    """Id of the record."""
    at: float
    """Epoch seconds."""
    sight: Sight
    status: int | None = None
    """None: there was no response."""
    signature: str | None = None
    """Signature that changes with the page; None if its content did not come."""
    etag: str | None = None
    last_modified: str | None = None
    items: Sequence[Mapping[str, Any]] | None = None
    """Rows that the stages made of its content; None: nothing came, or it is not kept."""
    text: KeptText | None = None
    """Text to compare with the next one; None: nothing came, or texts are not compared."""

    @property
    def enters(self) -> bool:
        """Return whether a page that is not known is to be, by this."""
        return self.sight in (Sight.THERE, Sight.UNMODIFIED)


class Listed(NamedTuple):
    """Entry of a page in a sitemap."""

    key: str
    changed_at: float
    """Epoch seconds."""


def key_of(appid: str, url: str) -> str:
    """The key of a page by its application and canonical URL: 32 hex digits."""
    text = f"{len(appid)}:{appid}{url}"
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def seen_in(
    page: Delivered,
    sight: Sight,
    signature: str | None,
    now: float,
    *,
    items: Sequence[Mapping[str, Any]] | None = None,
    text: KeptText | None = None,
) -> Iterator[Seen]:
    """Yield news of a result: of its page, and of the pages that redirected to it.

    A crawler's clock that is ahead of ``now`` does not count.
    """
    at = min(page.timestamp.timestamp(), now)
    is_there = sight in (Sight.THERE, Sight.UNMODIFIED)
    about = {"appid": page.appid, "spiderid": page.spiderid, "id": page.id, "at": at}
    yield from _of_url(
        page.url,
        **about,
        sight=sight,
        status=page.status_code,
        signature=signature if sight is Sight.THERE else None,
        etag=_header(page, "etag") if is_there else None,
        last_modified=_header(page, "last-modified") if is_there else None,
        items=items if sight is Sight.THERE else None,
        text=text if sight is Sight.THERE else None,
    )
    for url in page.redirect_urls:
        yield from _of_url(url, **about, sight=Sight.MOVED, status=_MOVED)


def listed_in(page: Delivered, now: float) -> Iterator[Listed]:
    """Yield the pages of a sitemap or feed that have a time of change; none is in the future."""
    for (url, _), lastmod in zip(page.links, page.lastmods, strict=False):
        changed_at = _time_of(lastmod)
        if changed_at is not None and changed_at <= now:
            try:
                yield Listed(key_of(page.appid, canonical(url)), changed_at)
            except InvalidUrl:
                continue


def announced_in(appid: str, urls: Sequence[str], at: float) -> Iterator[Listed]:
    """Yield the pages that their site says to have changed before a time in epoch seconds."""
    for url in urls:
        with suppress(InvalidUrl):
            yield Listed(key_of(appid, canonical(url)), at)


def _time_of(text: str) -> float | None:
    """Epoch seconds of a time in ISO 8601; of a day its beginning."""
    try:
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def seen_failed(event: PageFailed, at: float) -> Iterator[Seen]:
    """Yield news of the event of a page without a result, at a time in epoch seconds."""
    yield from _of_url(
        event.url,
        appid=event.crawl.appid,
        spiderid=event.crawl.spiderid,
        id=event.id,
        at=at,
        sight=Sight.FAILED,
    )


def _of_url(url: str, **about: Any) -> Iterator[Seen]:
    """Yield nothing for an invalid URL: it could not be a seed."""
    try:
        clean = link_url(url)
    except InvalidUrl:
        return
    key, domain = key_of(about["appid"], canonical(clean)), domain_key(host_of(clean))
    yield Seen(key=key, url=clean, domain=domain, **about)


def sight_of(status: int) -> Sight:
    """Return how a page was found, by the status of its answer."""
    if status == _UNMODIFIED:
        return Sight.UNMODIFIED
    if status in GONE:
        return Sight.GONE
    return Sight.THERE if status // 100 == _ALL_WELL else Sight.FAILED


def _header(page: Delivered, name: str) -> str | None:
    """Return the one value of a header; None for a value that a request could not send."""
    found = [values for each, values in page.response_headers.items() if each.lower() == name]
    if len(found) != 1 or len(found[0]) != 1:
        return None
    value = found[0][0].strip()
    return value if value.isprintable() and 0 < len(value) <= _LONGEST_VALIDATOR else None
