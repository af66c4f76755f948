"""Settings of crawling: how pages are fetched, and from where."""

from __future__ import annotations

from collections.abc import Callable, Collection
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator
from pydantic_settings import NoDecode

from crawlstream.boot.sections.section import Section, new, parts
from crawlstream.model.egress.tls import DEFAULT, LEGACY, PROFILES
from crawlstream.model.web.directives import BodyBan
from crawlstream.model.web.guard_mode import GuardMode
from crawlstream.model.web.purposes import RIGHTS_FILES

Network = IPv4Network | IPv6Network


def _networks(value: Any) -> Any:
    return tuple(ip_network(str(part)) for part in parts(value))


def _known(value: Any, known: Collection[str]) -> tuple[str, ...]:
    found = tuple(parts(value))
    if unknown := set(found) - set(known):
        raise ValueError(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return found


def _profiles(value: Any) -> Any:
    found = _known(value, PROFILES)
    return (DEFAULT, *(name for name in dict.fromkeys(found) if name != DEFAULT))


def _listed(known: Collection[str]) -> Callable[[Any], tuple[str, ...]]:
    return lambda value: tuple(one for one in known if one in _known(value, known))


def _names(value: Any) -> Any:
    found = tuple(dict.fromkeys(parts(value)))
    if odd := [name for name in found if not set("&=#?*").isdisjoint(name.removesuffix("*"))]:
        raise ValueError(f"{', '.join(odd)}: names have no & = # ?, and * only at their end")
    return found


_Bans = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_listed([ban.value for ban in BodyBan]))
]
_Files = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed(RIGHTS_FILES))]
_Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_names)]
_Profiles = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_profiles)]

Networks = Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_networks)]
"""Ranges of addresses, with commas between them."""


class CrawlingSettings(Section):
    """Crawling: how pages are fetched."""

    user_agent: str = "crawlstream/0.1 (+https://example.com/set-USER_AGENT-to-a-contact-page)"
    """User-Agent header sent to sites; include the URL of your contact page."""
    robotstxt_obey: bool = True
    """Obey robots.txt."""
    allow_ignore_robots: bool = Field(default=False, validation_alias=new("ALLOW_IGNORE_ROBOTS"))
    """Allow requests to set ``"obey_robots": false``."""
    directives: Literal["record", "obey", "always"] = Field(
        "record", validation_alias=new("DIRECTIVES")
    )
    """Links with `nofollow` (of robots metas, X-Robots-Tag or `rel`): `record` follows them and
    names the directives in results, `obey` leaves them out. A crawl may choose with `"directives"`,
    unless this is `always`, which also leaves them out. The same for all crawlers."""
    documents: Literal["", "links"] = Field("", validation_alias=new("DOCUMENTS"))
    """`links`: follow the links of PDFs and office documents, too; needs the extra `extract`. The
    same for all crawlers."""
    visit_time: bool = Field(default=False, validation_alias=new("VISIT_TIME"))
    """Fetch pages of a site only at the times of day that its robots.txt names (`Visit-time`)."""
    clean_param: bool = Field(default=False, validation_alias=new("CLEAN_PARAM"))
    """Fetch links without the parameters that the robots.txt of their site declares irrelevant
    (`Clean-param`)."""
    drop: _Bans = Field((), validation_alias=new("DROP"))
    """Directives because of which bodies of pages are not kept, comma-separated: `noindex`,
    `noarchive`; and `reserved`, for pages that their site reserves for CRAWLSTREAM_PURPOSE. Crawls
    may add others with `"drop"`. The same for all crawlers."""
    purpose: (
        Literal["search", "train-ai", "ai-input", "mining", "archive", "research", "other"] | None
    ) = Field(None, validation_alias=new("PURPOSE"))
    """Use that crawls are for if they name none with `"purpose"`: results say whether their site
    reserves the page for it. It is not sent to sites. The same for all crawlers."""
    rights_files: _Files = Field((), validation_alias=new("RIGHTS_FILES"))
    """Files about the use of pages to fetch from sites, once a day and origin, comma-separated:
    `tdmrep` (`/.well-known/tdmrep.json`), `rsl` (the license that robots.txt names, if it is on the
    same origin). The same for all crawlers."""
    guard: GuardMode = Field(GuardMode.OFF, validation_alias=new("GUARD"))
    """Mode of the waste guard for crawls that do not choose one with `"guard"`. `watch` adds the
    text signature and the canonical URL of pages to results, and reports families of URLs that
    bring nothing new. `on` also fetches links into these families last, or leaves them out. The
    same for all crawlers."""
    guard_most: GuardMode = Field(GuardMode.ON, validation_alias=new("GUARD_MOST"))
    """Highest mode of the waste guard that a crawl may choose; `off` switches the guard off for
    all. The same for all crawlers."""
    keep_parameters: _Names = Field((), validation_alias=new("KEEP_PARAMETERS"))
    """URL parameters that stay in links, and that the waste guard does not judge by,
    comma-separated; `*` at the end of a name stands for any characters. Crawls may name others with
    `"parameters"`. The same for all crawlers."""
    drop_parameters: _Names = Field((), validation_alias=new("DROP_PARAMETERS"))
    """URL parameters to remove from links before they are followed, comma-separated, such as
    `utm_*,gclid`; names as for CRAWLSTREAM_KEEP_PARAMETERS. The same for all crawlers."""
    guard_neighbours: bool = Field(default=True, validation_alias=new("GUARD_NEIGHBOURS"))
    """Request made-up URLs from sites before families of URLs are refused, for crawls whose mode of
    the waste guard is `on`. Without it, paths are never refused. The same for all crawlers."""
    sitemap_files: int = Field(500, ge=1, le=50_000, validation_alias=new("SITEMAP_FILES"))
    """Maximum number of files that a crawl with `"sitemaps"` reads for one sitemap in a robots.txt,
    that sitemap included; for all sitemaps of a robots.txt together, twenty times as many. The same
    for all crawlers."""
    retry_times: int = Field(3, ge=0, le=20)
    """Number of retries after the first attempt at a page."""
    download_timeout: float = Field(10, gt=0)
    """Timeout of one download, in seconds."""
    download_verify_certificates: bool | None = None
    """Verify the TLS certificates of sites. Default: only for requests that carry cookies, custom
    headers or a body."""
    tls_profiles: _Profiles = Field((DEFAULT, LEGACY), validation_alias=new("TLS_PROFILES"))
    """TLS profiles that requests and pools of proxies may use, comma-separated: `default`, which is
    always one of them, `legacy` (TLS 1.0 and old ciphers), and `chrome`, `firefox` and `safari` (as
    that browser; needs the extra `crawlstream[tls]`). The same for all crawlers, for kafka-monitor
    and REST."""
    metarefresh_enabled: bool = True
    """Follow meta refreshes as redirects, as Scrapy does."""
    metarefresh_maxdelay: float = Field(100, ge=0)
    """Follow a meta refresh only if its delay is at most this many seconds."""
    scheduler_backlog_blacklist: bool = True
    """Queue links to blocked domains until the domain is unblocked. If false, such links are
    filtered."""

    @model_validator(mode="after")
    def _check_purpose(self) -> Self:
        if BodyBan.RESERVED in self.drop and self.purpose is None:
            raise ValueError(
                "CRAWLSTREAM_DROP=reserved needs CRAWLSTREAM_PURPOSE: pages are reserved for a"
                " purpose"
            )
        return self


class AddressSettings(Section):
    """Addresses: what crawlers may connect to."""

    allow_networks: Networks = Field((), validation_alias=new("ALLOW_NETWORKS"))
    """Internal address ranges (CIDR, comma-separated) that may be crawled. This allows every port,
    every client and links from every page."""
    deny_networks: Networks = Field((), validation_alias=new("DENY_NETWORKS"))
    """Address ranges (CIDR, comma-separated) that crawlers never connect to, even if they are
    allowed elsewhere."""
