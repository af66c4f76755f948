"""From a lease to the request that Scrapy downloads.

Each value that a request carries has an owner: the crawl has its user agent and cookies, the domain
of its seed has cookies and extra headers, one host has the cookies of a redirect.
Nothing outlives the request in a jar of the process, so nothing leaks between crawls.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from scrapy import Request, Spider
from scrapy.http import Response

from crawling.page import referrer as referrers
from crawling.page.chain_cookies import octets_of, sent_to, text_of
from crawling.page.page import Page
from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import Lease
from crawlstream.model.credentials import covers
from crawlstream.model.web.address import address

PAGE = "crawlstream"
"""Key in ``request.meta`` under which the page travels through Scrapy."""

_OURS = frozenset({"connection", "content-length", "host", "te", "transfer-encoding", "upgrade"})
"""Headers that HTTP itself needs; a request cannot set them."""

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_NO_CONTROLS = dict.fromkeys((*range(32), 127))
"""Control characters end a header, or reach the wire; neither is a header's business."""


class AddressRequest(Request):
    """A request that is sent as its address has it; Scrapy's own would be quoted once more.

    A URL that is not an address (older frontiers have some) is sent as Scrapy sends it.
    """

    def _set_url(self, url: str) -> None:
        try:
            self._url = address(url)
        except InvalidUrl:
            super()._set_url(url)


class InheritedSpider(str):
    """The spider of a page's crawl; a request with copied meta does not select a spider by it."""

    __slots__ = ()


def page_of(carrier: Request | Response) -> Page:
    """The page that a request or response belongs to."""
    page: Page = carrier.meta[PAGE]
    return page


def to_scrapy(page: Page, spider: Spider, errback: Callable[..., Any]) -> Request:
    """The request of a page; ValueError or TypeError if it cannot be made into one."""
    lease = page.lease
    entry = lease.entry
    return AddressRequest(
        entry.url,
        callback=_callback(spider, entry.callback),
        errback=errback,
        method=entry.method,
        headers=octets_in(headers_of(lease)),
        body=entry.body,
        meta={**_of_spider(entry.meta), **_meta(lease), PAGE: page},
        priority=lease.priority,
        dont_filter=True,
    )


def _callback(spider: Spider, name: str | None) -> Callable[..., Any] | None:
    if name is None:
        return None
    callback: Callable[..., Any] | None = getattr(spider, name, None)
    if not callable(callback):
        raise TypeError(f"the spider {spider.name!r} has no callback {name[:100]!r}")
    return callback


def _meta(lease: Lease) -> dict[str, Any]:
    """Keys that spiders and middlewares of Scrapy Cluster look up in ``response.meta``."""
    return {
        "retry_times": lease.retries,
        "appid": lease.crawl.appid,
        "crawlid": lease.crawl.crawlid,
        "spiderid": InheritedSpider(lease.crawl.spiderid),
        "attrs": lease.profile.attrs,
        "priority": lease.priority,
        "curdepth": lease.entry.depth,
        "maxdepth": lease.profile.maxdepth,
    }


INHERITED_META = frozenset(
    {"appid", "crawlid", "spiderid", "attrs", "priority", "curdepth", "maxdepth"}
)
"""Keys that are set again on every request of a crawl, so that spiders may copy meta."""


OF_THE_DOWNLOADER = frozenset({"_auth_proxy", "bindaddress", "proxy"})
"""Keys by which a middleware chooses the way of one download, and the address that it leaves from;
nothing that is stored may."""


def _of_spider(meta: Mapping[str, object]) -> Mapping[str, object]:
    if OF_THE_DOWNLOADER.isdisjoint(meta):
        return meta
    return {key: value for key, value in meta.items() if key not in OF_THE_DOWNLOADER}


def agent_of(lease: Lease, default: str) -> str:
    """Return the user agent of a page's request, which also selects its group in robots.txt."""
    if lease.entry.headers or lease.profile.headers:
        return headers_of(lease).get("user-agent") or default
    return lease.profile.useragent or default


def headers_of(lease: Lease) -> dict[str, str]:
    """Return headers with names in lower case, so that each has one value: the last one."""
    entry, profile = lease.entry, lease.profile
    at_home = is_at_home(lease)
    headers = _lowered(profile.headers or {}) if at_home else {}
    if profile.useragent:
        headers["user-agent"] = profile.useragent
    if entry.parent_url and (referrer := referrers.usual(entry.parent_url, entry.url)):
        headers["referer"] = referrer
    if cookie := _cookie(lease, at_home=at_home):
        headers["cookie"] = cookie
    headers.update(_lowered(entry.headers))
    return {
        name: value.translate(_NO_CONTROLS)
        for name, value in headers.items()
        if value and _NAME.fullmatch(name) and name not in _OURS
    }


def is_at_home(lease: Lease) -> bool:
    """Return whether what the seed was given to carry may go where the page is."""
    return lease.profile.site is None or covers(lease.profile.site, lease.entry.url)


def carries_cookies(lease: Lease) -> bool:
    """Return whether a page's request has other cookies than those that its own server has set."""
    if lease.entry.cookies and not lease.entry.redirect_urls:
        return True
    return bool(lease.profile.cookie or lease.profile.cookies) and is_at_home(lease)


def octets_in(headers: Mapping[str, str]) -> dict[str, bytes]:
    """Return the headers as they are sent; cookies may have octets outside UTF-8."""
    return {name: value.encode("utf-8", "surrogateescape") for name, value in headers.items()}


def _lowered(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


def _cookie(lease: Lease, *, at_home: bool) -> str:
    """The Cookie header: the crawl's text, then its cookies as changed along the redirects."""
    profile = lease.profile
    given = (profile.cookies or {}) if at_home else {}
    given = {name: text_of(value.encode()) for name, value in given.items()}
    pairs = {**given, **lease.entry.cookies}
    sent = "; ".join(f"{name}={value}" for name, value in sent_to(pairs, lease.entry.url))
    parts = [octets_of(sent).decode("utf-8", "surrogateescape")] if sent else []
    if at_home and profile.cookie:
        parts.insert(0, profile.cookie.strip().rstrip(";"))
    return "; ".join(parts)
