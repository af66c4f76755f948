"""The seed of a crawl request, as kafka-monitor makes it and as a plugin may."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Self

from crawlstream.bus.records import Record
from crawlstream.errors import InvalidRequest
from crawlstream.model.crawl import Budgets, CrawlKey, Entry, Profile
from crawlstream.model.effects import Seed
from crawlstream.model.recurring.schedule import OCCASION_DAYS, Occasion
from crawlstream.model.recurring.validators import conditions_of
from crawlstream.model.request import (
    CrawlRequest,
    Refusal,
    RequestLimits,
    profile_below,
    profile_of,
)
from crawlstream.model.url import fingerprint, look_up_seed
from crawlstream.wire import stored
from crawlstream.wire.requests import SCRAPER

OCCASION_MS = OCCASION_DAYS * 24 * 3600 * 1000


def check_occasion(occasion: Occasion, record: Record) -> None:
    """InvalidRequest where the time of an occasion is too far from that of its record.

    By the record's own time, so that it is judged alike whenever it is read.
    """
    if abs(occasion.at * 1000 - record.timestamp_ms) > OCCASION_MS:
        problem = f"$.occasion.at: must be within {OCCASION_DAYS} days of the record's own time"
        raise InvalidRequest(Refusal.BAD_REQUEST, [problem])


@dataclass(frozen=True, slots=True)
class Pattern:
    """A request whose URL, conditions and occasion do not matter: many seeds are like it."""

    request: CrawlRequest
    crawl: CrawlKey
    profile: Profile
    is_plain: bool
    """Seeds are fetched by GET, without a body."""
    budgets: Budgets | None = None

    @classmethod
    def of(cls, request: CrawlRequest) -> Self:
        """The pattern of a request and all that are like it."""
        is_plain = request.method == "GET" and request.body is None
        return cls(request, request.crawl, profile_of(request), is_plain, budgets=request.budgets)

    def seed(
        self,
        url: str,
        domain: str,
        identity: str | None,
        record: Record,
        *,
        occasion: Occasion | None = None,
        conditions: Mapping[str, str] = MappingProxyType({}),
    ) -> Seed:
        """The seed of a URL, named by the place of its record.

        ``identity`` is its fingerprint by GET, where that is known; ``conditions`` are the headers
        that this seed alone has. InvalidRequest refuses the occasion.
        """
        if occasion is not None:
            check_occasion(occasion, record)
        like = self.request
        origin = f"{record.topic}-{record.partition}-{record.offset}"
        if self.is_plain and not conditions:
            identity, entry = identity or fingerprint(url), stored.encode_seed(url, origin)
        else:
            body = (like.body or "").encode()
            identity = fingerprint(url, like.method, body)
            entry = stored.encode_entry(
                Entry(
                    url=url,
                    origin=origin,
                    method=like.method,
                    headers=conditions,
                    body=body or None,
                )
            )
        return Seed(
            offset=record.offset,
            timestamp_ms=record.timestamp_ms,
            crawl=self.crawl,
            domain=domain,
            priority=like.priority,
            fingerprint=identity,
            entry=entry,
            profile=profile_below(self.profile, url),
            expires=like.expires,
            not_before=like.not_before,
            remember=like.remember,
            budgets=self.budgets,
            occasion=occasion,
        )


def seed_fed(fields: Mapping[str, Any], record: Record, limits: RequestLimits) -> Seed:
    """Return the seed of a crawl request, checked like one that was fed.

    ``fields`` are those of ``docs/wire.md``. InvalidRequest and InvalidUrl describe the problem.
    """
    if not SCRAPER.schema.fits(fields):
        raise InvalidRequest(Refusal.BAD_REQUEST, SCRAPER.schema.problems(fields))
    request: Any = SCRAPER.build(fields, limits)
    found = look_up_seed(fields["url"])
    return Pattern.of(request).seed(
        *found,
        record,
        occasion=request.occasion,
        conditions=conditions_of(request.etag, request.last_modified),
    )
