"""Settings of the process of a crawler."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from crawlstream.boot.sections.section import Section, check_url, new


class CrawlerSettings(Section):
    """Crawler processes: concurrency, memory, lifetime and termination notices."""

    concurrent_requests: int = Field(64, ge=1, le=1000)
    """Maximum number of concurrent downloads per crawler process. Slow downloads are counted
    separately: up to three times as many again."""
    fetch: Literal["lane", "engine"] = Field("lane", validation_alias=new("FETCH"))
    """How pages are fetched: lane (the fetch lane with libcurl; spiders that need Scrapy's engine
    use that all the same) or engine (always Scrapy's engine and its HTTP client)."""
    memory_limit_mb: int = Field(
        1024,
        validation_alias=new("MEMORY_LIMIT_MB", "MEMUSAGE_LIMIT_MB"),
        ge=0,
    )
    """Memory limit of a crawler process, in MiB. Above it, the process drains and exits with 0, so
    that its supervisor restarts it. Set it below the container's limit; 0 disables."""
    max_age_s: float = Field(24 * 3600, validation_alias=new("MAX_AGE"), ge=0)
    """Maximum lifetime of a crawler process, in seconds; after about that time it drains and exits
    as above. 0 disables."""
    notice: str = Field(
        "",
        validation_alias=new("NOTICE"),
        pattern=r"^(aws|gcp|azure|file:.+|[A-Za-z_]\w*(\.[A-Za-z_]\w*)+)?$",
    )
    """Source of termination notices for the crawler's machine: aws, gcp, azure, file:PATH, or a
    function package.module.name. On a notice the crawler drains, as on SIGTERM. Empty disables."""
    notice_s: float = Field(0, validation_alias=new("NOTICE_S"), ge=0)
    """Seconds between a termination notice and the termination; unfinished pages are released
    before. 0: the cloud provider's value (aws 120, others 30)."""
    notice_url: str = Field(
        "http://169.254.169.254", validation_alias=new("NOTICE_URL"), pattern=r"^http://[^/@]+$"
    )
    """Base URL of the cloud's instance metadata service."""

    @model_validator(mode="after")
    def _check_notice_url(self) -> Self:
        check_url("CRAWLSTREAM_NOTICE_URL", self.notice_url, ("http",))
        return self
