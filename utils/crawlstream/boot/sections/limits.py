"""Settings that bound requests, crawls and pages."""

from __future__ import annotations

from pydantic import Field

from crawlstream.boot.sections.section import Hosts, Section, new
from crawlstream.model.request import RequestLimits


class CrawlSettings(Section):
    """Crawls: how long they last, and how much may wait."""

    dupefilter_timeout: int = Field(600, ge=0)
    """Seconds to keep a crawl's dedupe set after its last run has ended."""
    finish_grace: float = Field(3, validation_alias=new("FINISH_GRACE", "FINISH_GRACE"), ge=0)
    """Seconds that a crawl must be idle before it is marked as finished."""
    max_wait: float = Field(86_400, validation_alias=new("MAX_WAIT", "MAX_WAIT"), ge=0)
    """Fail a run's waiting pages (reason `no_worker` or `domain_unreachable`) after this many
    seconds without progress; 0 disables."""
    max_queued_crawl: int = Field(0, validation_alias=new("MAX_QUEUED_CRAWL"), ge=0)
    """Maximum number of waiting pages per crawl. Above it, links are filtered and seeds are
    rejected; 0: unlimited."""
    max_queued: int = Field(0, validation_alias=new("MAX_QUEUED"), ge=0)
    """Maximum number of waiting pages in all crawls together; 0: unlimited."""


class LimitSettings(Section):
    """Limits: of requests, links and responses."""

    max_depth: int = Field(100, validation_alias=new("MAX_DEPTH", "MAX_DEPTH"), ge=0, le=300)
    """Largest ``maxdepth`` that a request may set."""
    max_attrs_bytes: int = Field(65_536, validation_alias=new("MAX_ATTRS_BYTES"), ge=2)
    """Maximum size of a request's ``attrs``, in bytes; every page and result of the crawl carries
    them."""
    max_schedules: int = Field(1000, validation_alias=new("MAX_SCHEDULES"), ge=0)
    """Maximum number of schedules of all applications together."""
    schedule_min_s: int = Field(60, validation_alias=new("SCHEDULE_MIN_S"), ge=1)
    """Smallest gap between two firings of a schedule, in seconds. Below 60, ``cron`` may have a
    sixth field, in front, for seconds."""
    seed_stores: Hosts = Field((), validation_alias=new("SEED_STORES"))
    """Folders whose files schedules may feed by ``seeds_from``: URLs with commas between them
    (``file:///…``, ``s3://…``), the same for kafka-monitor and redis-monitor. Default: none."""
    max_remember: int = Field(
        30 * 24 * 3600, validation_alias=new("MAX_REMEMBER"), ge=0, le=315_360_000
    )
    """Largest ``remember`` that a request may set, in seconds. A remembered URL takes about 9 bytes
    of Redis."""
    max_path_segments: int = Field(20, validation_alias=new("MAX_PATH_SEGMENTS"), ge=0)
    """Maximum number of path segments of a followed link; others are filtered (``path_depth``). 0:
    unlimited."""
    max_path_repeats: int = Field(3, validation_alias=new("MAX_PATH_REPEATS"), ge=0)
    """Maximum number of occurrences of one segment in a link's path; links above that are filtered
    (``path_repeats``)."""
    download_max_bytes: int = Field(
        16 * 1024 * 1024,
        validation_alias=new("DOWNLOAD_MAX_BYTES", "DOWNLOAD_MAXSIZE"),
        ge=1024,
    )
    """Maximum size of a decompressed response, in bytes; larger ones fail with reason
    ``too_large``."""
    max_body_bytes: int = Field(4 * 1024 * 1024, validation_alias=new("MAX_BODY_BYTES"), ge=1024)
    """Maximum size of a body in its result record, in bytes; longer bodies are truncated."""
    body_store: str | None = Field(None, validation_alias=new("BODY_STORE"))
    """Storage URL for the full bodies of truncated results (``file:///…``, ``s3://…``)."""

    @property
    def request_limits(self) -> RequestLimits:
        """Return how much a request may ask for."""
        return RequestLimits(
            max_depth=self.max_depth,
            max_attrs_bytes=self.max_attrs_bytes,
            max_schedules=self.max_schedules,
            schedule_min_s=self.schedule_min_s,
            max_remember=self.max_remember,
            seed_stores=self.seed_stores,
        )
