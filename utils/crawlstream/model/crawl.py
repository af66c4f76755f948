"""The subjects of a crawl: its key, the profile of its pages, a queue entry, and a lease."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from crawlstream.model.web.priorities import PriorityRule
from crawlstream.model.web.url_parameters import Parameters

ANSWER_ACCEPTED, ANSWER_PAGE = "accepted", "page"
"""Values of ``answer``."""
READS_SITEMAP = "crawlstream_sitemap"
"""Callback of all spiders for sitemaps that a crawl reads."""


@dataclass(frozen=True, slots=True)
class CrawlKey:
    """Name of a crawl. A crawl owns its dedupe set, page limits and profiles, and has runs."""

    spiderid: str
    appid: str
    crawlid: str


@dataclass(frozen=True, slots=True)
class FiringKey:
    """Name of a schedule's firing in its application."""

    schedule: str
    at: int
    """Epoch seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inherited:
    """Settings of a seed that all pages below it inherit; the only list of them.

    ``None`` and 0 mean "no such limit".
    """

    maxdepth: int = 0
    domain_max_pages: int | None = None
    domain_max_bytes: int | None = None
    """Bytes of a domain's pages in a run, after which none of them is fetched."""
    domain_max_failed_share: float | None = None
    """Failed pages of a domain, of those that are done or failed, once these are 100."""
    max_pages: int | None = None
    allowed_domains: tuple[str, ...] | None = None
    allow_regex: tuple[str, ...] | None = None
    deny_regex: tuple[str, ...] | None = None
    deny_extensions: tuple[str, ...] | None = None
    priorities: tuple[PriorityRule, ...] | None = None
    """Rules of links; the first that fits decides."""
    score: str | None = None
    """``inlinks``: waiting pages with three links are promoted; None: they are not."""
    host_budget: tuple[int, int] | None = None
    """Pages of a domain that do not wait lower: a number, and one for each trusted domain that
    links to it."""
    useragent: str | None = None
    cookie: str | None = None
    cookies: Mapping[str, str] | None = None
    headers: Mapping[str, str] | None = None
    attrs: Mapping[str, object] | None = None
    obey_robots: bool | None = None
    directives: str | None = None
    """``obey`` or ``record`` what pages say of their links; None: the operator's setting."""
    drop: tuple[str, ...] | None = None
    """Values of ``model.web.directives.BodyBan`` by which bodies are not kept."""
    purpose: str | None = None
    """Value of ``model.web.purposes.Purpose``; None: the operator's setting."""
    guard: str | None = None
    """Value of ``model.web.guard_mode.GuardMode``; None: the operator's setting."""
    parameters: Parameters | None = None
    """Parameters of URLs that links lose, or keep; the operator's are added."""
    sitemaps: str | None = None
    """Value of ``model.scope.SitemapUse``; None: pages are found by links alone."""
    proxy: str | None = None
    """Name of a pool of proxies, or ``direct``; None: the operator's setting for the domain."""
    tls: str | None = None
    """Name of a TLS profile; None: the default of the pool."""
    render: Mapping[str, object] | None = None
    """Options for a browser, as of ``model.egress.render``; None: no browser is needed."""
    archive: bool | None = None
    """True if results also hold each response as it was sent (``model.result.AsSent``)."""
    requisites: bool | None = None
    """True if images, styles and scripts of its pages are requested, for archives."""
    redirects: str = "seeds"
    """Redirects out of the scope that are followed: a value of ``model.scope.Redirects``."""
    purse: str | None = None
    """Name of the purse that pays for pages; None: nothing is paid."""
    max_price: str | None = None
    """Highest price of a page, as text; None: that of the purse."""
    uuid: str | None = None
    answer: str = ANSWER_ACCEPTED
    """Reply to ``uuid``: when the seed is admitted, or when its page is there."""


LEAST_PAGES = 100
"""Pages that a run has at least when its share of failed pages is looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budgets:
    """Budgets of a crawl, as one seed sets them, all together; ``None`` means "no such budget"."""

    max_seconds: int | None = None
    """Longest time between the beginning of a run and its end."""
    max_bytes: int | None = None
    """Bytes of bodies, as the ledger of the run counts them."""
    max_failed_share: float | None = None
    """Failed pages of those that are done or failed, once these are ``LEAST_PAGES``."""

    def spent_by(self, counters: Mapping[str, int]) -> str:
        """Return a budget that the counters of a run have spent, or "".

        ``includes/budgets.lua`` has the same rule. Time is not looked at.
        """
        failed = counters.get("failed", 0)
        pages = counters.get("done", 0) + failed
        if self.max_bytes and counters.get("bytes", 0) >= self.max_bytes:
            return "max_bytes"
        share = self.max_failed_share if pages >= LEAST_PAGES else None
        return "max_failed_share" if share and failed >= share * pages else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile(Inherited):
    """Inherited settings of a page; stored once, entries refer to it by number.

    ``seed_url`` is None if the crawl cannot go deeper than its seed, so that a million single pages
    share one profile.
    """

    seed_url: str | None = None
    site: str | None = None
    """Scope (``model.credentials``) of ``cookie``, ``cookies`` and ``headers``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Request that waits to be fetched; the frontier stores it without interpreting it."""

    url: str
    depth: int = 0
    origin: str | None = None
    """Seed record, ``topic-partition-offset``; None for a discovered page."""
    parent_url: str | None = None
    redirect_urls: tuple[str, ...] = ()
    callback: str | None = None
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)
    """Cookies set along a redirect chain, for this host only."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """Data that a custom spider attached to its request; JSON values only."""
    salt: str | None = None
    """Text that makes the identity of a request unique if it must not be deduplicated."""
    moved_to: str | None = None
    """Host outside of ``allowed_domains`` to which the seed of the page has moved: links to it
    are allowed on this page and the pages below."""
    trace: str | None = None
    """Trace of a seed whose client samples it (``crawlstream_traces.context``), kept on redirects;
    None: none."""

    @property
    def is_sitemap(self) -> bool:
        """Return whether its response is read as a sitemap."""
        return self.callback == READS_SITEMAP


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Lease of an entry to one worker: (entry, worker, token, since).

    Settle, requeue, release and sent requests name the token. If Redis has no lease of this worker
    with the token, the request changes nothing and the token is returned as stale.
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
    """time.monotonic() just before the granting call was sent: the grant is not older."""
    recovered: bool = False
    firing: FiringKey | None = None
    """Latest firing that fed the run."""
    partition: int = 0
    """Partition of the frontier that granted it."""
    is_marked: bool = False
    """True if the entry was retried, or reaped: its result may be published already."""
    is_gentle: bool = False
    """True if the rule of its site is gentle: the time to the first byte must be reported."""
    gate: str = ""
    """Gate that it used (see ``Groups``): its requests may go to addresses of that one only."""
    spent_budget: str = ""
    """Budget that its domain has spent in the run; the page ends unless ``is_marked``."""
    is_trusted: bool = False
    """True if its domain is trusted, in a crawl with a host budget."""
    is_spare: bool = False
    """True if it has no grant: the page may be ended or released, but not requested."""

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self.retries + 1
