"""Requests of clients as validated values, and the reasons to refuse a record.

Only ``wire.requests.decode`` makes these values from a request: types and bounds are valid, the
seed's URL is safe to fetch, its expressions compile, and its headers can be sent.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from operator import attrgetter
from typing import Literal, get_args

from crawlstream.model.crawl import Budgets, CrawlKey, Inherited, Profile
from crawlstream.model.credentials import scope_of
from crawlstream.model.egress.tls import DEFAULT, LEGACY
from crawlstream.model.recurring.schedule import Do, Occasion, Schedule

LATEST = 253_402_300_799
"""Last second of the year 9999; later times are reduced to it."""

Steering = Literal["stop", "pause", "resume", "reprioritize"]
"""Actions that change a crawl; the others only query it."""
STEERING: frozenset[str] = frozenset(get_args(Steering))


class Refusal(StrEnum):
    """Reason to refuse a record: a code for programs, with a sentence for people."""

    EMPTY = "empty"
    TOO_LARGE = "too_large"
    NOT_UTF8 = "not_utf8"
    TOO_DEEP = "too_deep"
    NOT_JSON = "not_json"
    BAD_NUMBER = "bad_number"
    BAD_TEXT = "bad_text"
    NOT_AN_OBJECT = "not_an_object"
    BAD_REQUEST = "bad_request"
    BAD_URL = "bad_url"
    BAD_REGEX = "bad_regex"
    BAD_HEADER = "bad_header"

    @property
    def sentence(self) -> str:
        """Return the meaning of the code."""
        return _SENTENCES[self]


_SENTENCES = {
    Refusal.EMPTY: "the record has no value",
    Refusal.TOO_LARGE: "the record exceeds the maximum size of a request",
    Refusal.NOT_UTF8: "the record is not UTF-8 text",
    Refusal.TOO_DEEP: "the JSON exceeds the maximum nesting depth of a request",
    Refusal.NOT_JSON: "the record is not JSON",
    Refusal.BAD_NUMBER: "the JSON contains a number that programs interpret differently",
    Refusal.BAD_TEXT: "the JSON contains half a character (a lone surrogate)",
    Refusal.NOT_AN_OBJECT: "the record is JSON, but not an object",
    Refusal.BAD_REQUEST: "the object does not match any request type",
    Refusal.BAD_URL: "the seed cannot be crawled",
    Refusal.BAD_REGEX: "a regular expression is not valid",
    Refusal.BAD_HEADER: "a header or cookie cannot be sent",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """Limits of a request; operators may change those of depth and ``attrs``."""

    max_bytes: int = 2 * 1024 * 1024
    """Size of a record. Clients rely on 1 MiB."""
    max_attrs_bytes: int = 64 * 1024
    """Size of ``attrs`` as JSON: every page of the crawl inherits it, every result repeats it."""

    @property
    def max_values(self) -> int:
        """Return the maximum number of JSON values: room for those of ``attrs`` and the lists."""
        return self.max_attrs_bytes // 2 + 10_000

    max_levels: int = 128
    """Nesting of the JSON. Clients rely on 100; orjson writes 254."""
    max_depth: int = 100
    """Largest ``maxdepth``."""
    max_expressions: int = 100
    """Entries of ``allow_regex`` or ``deny_regex``: each is applied to each link."""
    max_expression_length: int = 1000
    """Characters of one expression."""
    max_headers: int = 100
    """Entries of ``headers`` or ``cookies``."""
    max_schedules: int = 1000
    """Schedules of all applications together."""
    schedule_min_s: int = 60
    """Smallest gap between two firings of a schedule."""
    max_schedule_bytes: int = 64 * 1024
    """Size of a schedule as JSON."""
    max_remember: int = 30 * 24 * 3600
    """Largest ``remember``, in seconds; it costs about 9 bytes of Redis per URL."""
    tls_profiles: tuple[str, ...] = (DEFAULT, LEGACY)
    """TLS profiles that may be named."""
    seed_stores: tuple[str, ...] | None = ()
    """Folders whose files ``seeds_from`` may name; None: unknown here, so any is accepted."""


_BUDGETS = tuple(each.name for each in fields(Budgets))


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlRequest(Inherited):
    """Seed with its settings.

    ``None`` and 0 mean "no such limit". Times are epoch seconds. ``url`` is a result of
    ``model.url.seed_url``.
    """

    appid: str
    crawlid: str
    url: str
    spiderid: str = "link"
    priority: int = 1
    remember: int | None = None
    """Seconds for which the dedupe set outlives a finished run; None: keep the value set before."""
    expires: int = 0
    max_seconds: int | None = None
    max_bytes: int | None = None
    max_failed_share: float | None = None
    not_before: float = 0
    method: str = "GET"
    body: str | None = None
    etag: str | None = None
    last_modified: str | None = None
    occasion: Occasion | None = None

    @property
    def crawl(self) -> CrawlKey:
        """Return the crawl that the seed belongs to."""
        return CrawlKey(self.spiderid, self.appid, self.crawlid)

    @property
    def budgets(self) -> Budgets | None:
        """Return the budgets that the seed sets; None: it sets none, those set before remain."""
        told = {name: value for name in _BUDGETS if (value := getattr(self, name)) is not None}
        return Budgets(**told) if told else None


_INHERITED = tuple(each.name for each in fields(Inherited))
_inherited = attrgetter(*_INHERITED)


def profile_of(request: CrawlRequest) -> Profile:
    """Return the settings that all pages below such a seed inherit, independent of its URL."""
    return Profile(**dict(zip(_INHERITED, _inherited(request), strict=True)))


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """Command to, or query about, a crawl or all crawls of an application."""

    name: str
    """Field ``action``: ``stop``, ``pause``, ``resume``, ``reprioritize`` or ``info``."""
    uuid: str
    appid: str
    spiderid: str
    crawlid: str | None = None
    priority: int | None = None
    """New priority of the crawl's best seed, for ``reprioritize``."""
    until: int | None = None
    """End of a ``pause`` in epoch seconds; None: it does not end by itself."""
    occasion: Occasion | None = None

    @property
    def crawl(self) -> CrawlKey | None:
        """Return the crawl; None: all crawls of the application."""
        return None if self.crawlid is None else CrawlKey(self.spiderid, self.appid, self.crawlid)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsRequest:
    """Request for counters."""

    uuid: str
    appid: str
    stats: str = "all"
    """``kafka-monitor``, ``redis-monitor``, ``crawler``, ``spider``, ``machine``, ``queue``,
    ``rest`` or ``all``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZookeeperRequest:
    """Change of the throttle rules."""

    uuid: str
    appid: str
    action: str
    """``domain-update``, ``domain-remove``, ``blacklist-update`` or ``blacklist-remove``."""
    domain: str
    hits: int = 0
    window: int = 0
    """Seconds."""
    scale: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRequest:
    """Change of a schedule, or query about it."""

    uuid: str
    appid: str
    name: str
    """``schedule`` on the wire."""
    do: Do = "set"
    schedule: Schedule | None = None
    """Schedule to set; None for other operations."""


Request = CrawlRequest | ActionRequest | ScheduleRequest | StatsRequest | ZookeeperRequest
