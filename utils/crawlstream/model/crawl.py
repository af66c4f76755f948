"""What is crawled: a crawl, the profile its pages share, one entry, one hold on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CrawlKey:
    """The name of a crawl. It owns dedupe, caps and profiles; runs are its numbered lives."""

    spiderid: str
    appid: str
    crawlid: str


@dataclass(frozen=True, slots=True)
class FiringKey:
    """The name of a schedule's firing in its application."""

    schedule: str
    at: int
    """Epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What every page below one seed inherits; stored once, named by a number in its entries.

    ``None`` means "no such limit" throughout. ``seed_url`` is absent when the crawl cannot go
    deeper than its seed, so that a million single pages share one profile.
    """

    seed_url: str | None = None
    attrs: Mapping[str, object] | None = None
    maxdepth: int = 0
    domain_max_pages: int | None = None
    max_pages: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    allow_regex: tuple[str, ...] | None = None
    deny_regex: tuple[str, ...] | None = None
    deny_extensions: tuple[str, ...] | None = None
    useragent: str | None = None
    cookie: str | None = None
    cookies: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    site: str | None = None
    """Scope (``model.credentials``) of ``cookie``, ``cookies`` and ``headers``."""
    obey_robots: bool | None = None
    proxy: str | None = None
    """Name of a pool of proxies, or ``direct``."""
    tls: str | None = None
    """Name of a TLS profile; None: as the pool has it."""
    render: Mapping[str, object] | None = None
    """What is asked of a browser, as ``model.egress.render`` has it; None: no browser is needed."""
    redirects: str = "seeds"
    """Which redirects out of its scope are followed: one of ``model.scope.Redirects``."""
    uuid: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request waiting to be fetched, as the frontier keeps it (opaque to the frontier)."""

    url: str
    depth: int = 0
    origin: str | None = None
    """``topic-partition-offset`` of the seed record; None for a discovered page."""
    parent_url: str | None = None
    redirect_urls: tuple[str, ...] = ()
    callback: str | None = None
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)
    """Cookies set along a redirect chain, for this host only."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """What a custom spider attached to its request; JSON values only."""
    salt: str | None = None
    """Makes the identity of a request that asked not to be deduplicated."""
    moved_to: str | None = None
    """Host to which the seed of the page has moved, outside of ``allowed_domains``: it belongs to
    them for this page and those below."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """An entry in the hands of one worker: (entry, worker, token, since).

    Settle, requeue, release and sent name the token; a token that Redis no longer knows for this
    worker changes nothing and is answered as stale.
    """

    token: str
    crawl: CrawlKey
    run: int
    domain: str
    priority: int
    entry: Entry
    profile: Profile
    retries: int
    """Download attempts already made for this entry."""
    issued_at: float
    """time.monotonic() just before the granting call left: an upper bound for the grant."""
    recovered: bool = False
    firing: FiringKey | None = None
    """The latest firing that fed the run."""
    partition: int = 0
    """Of the frontier, that granted it."""

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self.retries + 1
