"""A request that a spider has yielded, as the frontier keeps it.

It may be fetched by another process, days later. So what cannot be kept as it is, is refused when
it is yielded, and never changed on the way: TypeError says what it is and what to do. The table in
docs/spiders.md has each attribute of a request.
"""

from __future__ import annotations

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from functools import cache, lru_cache
from itertools import chain
from typing import Any, cast

import structlog
from scrapy import Request, Spider

from crawling.page import chain_cookies
from crawling.page.scrapy_request import INHERITED_META, OF_THE_DOWNLOADER, PAGE
from crawlstream.model.credentials import may_set_for
from crawlstream.model.url import host_of

log = structlog.get_logger()

_SCRAPYS = frozenset(
    {
        PAGE,
        *OF_THE_DOWNLOADER,
        "depth",
        "download_latency",
        "download_slot",
        "download_timeout",
        "is_start_request",
        "redirect_reasons",
        "redirect_times",
        "redirect_ttl",
        "redirect_urls",
        "retry_times",
        "verbatim_url",
    }
)
"""Keys of meta about one download; they come along where a spider copies the meta of a response."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_MOST_LEVELS = 100
"""Levels of nested lists and objects: the limit of records."""
_MOST_BITS = 14_000
"""Digits of an integer that Python can write as text."""


def callback_of(request: Request, spider: Spider | None) -> str | None:
    """Return the name that leads from the spider to a request's callback; None for ``parse``."""
    if request.cb_kwargs:
        raise TypeError(f"cb_kwargs of {request} cannot be stored in the frontier: use meta")
    if request.errback is not None:
        _warn_of_errback(getattr(request.errback, "__name__", type(request.errback).__name__))
    callback: Any = request.callback
    if callback is None:
        return None
    name = getattr(callback, "__name__", "")
    if name and _leads_to(spider, name, callback):
        return str(name)
    function = getattr(callback, "__func__", callback)
    found = isinstance(function, Hashable) and _name_in(cast(Hashable, type(spider)), function)
    if not found or not _leads_to(spider, found, callback):
        raise TypeError(
            f"the callback of {request} is not a method of its spider, and another process finds it"
            " by its name only: pass self.METHOD (no function, lambda, partial or method of another"
            " object)"
        )
    return found


@cache
def _warn_of_errback(name: str) -> None:
    """Log once that an errback is never called; CrawlSpider sets one of its own for any rule."""
    if name != "_errback":
        instead = "a page that fails is an event page_failed"
        log.warning("parse", outcome="errback_ignored", errback=name, instead=instead)


def headers_of(request: Request) -> dict[str, str]:
    """Return the values of each header, joined as HTTP defines it."""
    headers = {}
    for name, values in request.headers.items():
        joint = b"; " if name.lower() == b"cookie" else b", "
        try:
            headers[name.decode("latin-1")] = joint.join(values).decode()
        except UnicodeDecodeError as error:
            raise TypeError(
                f"the header {name.decode('latin-1')} of {request} is not UTF-8 and cannot be"
                " stored: percent-encode its value"
            ) from error
    return headers


def cookies_of(request: Request) -> dict[str, str]:
    """Return name and value of each cookie of a request, which has an object or a list of them."""
    cookies: Any = request.cookies
    if not isinstance(cookies, list):
        cookies = [{"name": name, "value": value} for name, value in cookies.items()]
    found = {}
    for cookie in cookies:
        if "name" not in cookie or "value" not in cookie:
            raise TypeError(f"a cookie of {request} has no name or no value: {cookie!r:.200}")
        if not _is_for(request.url, cookie):
            raise TypeError(
                f"a cookie of {request} is for another domain, path or scheme: {cookie!r:.200}"
            )
        name, value = (_cookie_text(cookie[part], request) for part in ("name", "value"))
        found[name] = value
    return found


def meta_of(request: Request) -> dict[str, object]:
    """Return what of the meta is the spider's own."""
    meta = {
        key: value
        for key, value in request.meta.items()
        if key not in _SCRAPYS and key not in INHERITED_META
    }
    for key, value in meta.items():
        if problem := _not_json({key: value}, _MOST_LEVELS):
            raise TypeError(
                f"the meta of {request} cannot be stored: {key!r:.100} is or contains {problem};"
                " JSON values can (a tuple arrives as a list)"
            )
    return meta


def _leads_to(spider: Spider | None, name: str, callback: object) -> bool:
    found: object = getattr(spider, name, None)
    return found == callback


@lru_cache(1024)
def _name_in(kind: Hashable, function: Hashable) -> str | None:
    """Find the attribute that a function is: decorators name it otherwise, ``__`` mangles it."""
    for each in cast(type, kind).__mro__:
        for name, value in vars(each).items():
            if value is function or getattr(value, "__func__", None) is function:
                return name
    return None


def _cookie_text(value: object, request: Request) -> str:
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise TypeError(f"a cookie of {request} is not UTF-8: {value!r:.100}") from error
    if isinstance(value, str | int | float) and not _SURROGATE.search(text := str(value)):
        return text
    raise TypeError(f"a cookie of {request} is not text: {value!r:.100}")


def _is_for(url: str, cookie: Mapping[str, Any]) -> bool:
    """Return whether a browser would send a cookie to a URL (RFC 6265, section 5.4)."""
    domain = str(cookie.get("domain") or "").lower().removeprefix(".")
    if domain and not may_set_for(domain, host_of(url)):
        return False
    is_secure = not cookie.get("secure") or url.startswith("https:")
    return is_secure and chain_cookies.covers(str(cookie.get("path") or "/"), url)


def _not_json_within(value: dict[Any, Any] | Sequence[Any], levels: int) -> str:
    if not levels:
        return f"more than {_MOST_LEVELS} levels"
    if not isinstance(value, dict):
        parts = iter(value)
    elif odd := [key for key in value if not isinstance(key, str)]:
        return f"the key {odd[0]!r:.100}"
    else:
        parts = chain(value, value.values())
    return next(filter(None, (_not_json(each, levels - 1) for each in parts)), "")


def _not_json(value: object, levels: int) -> str:
    """Say what of a value JSON cannot hold; empty where it can hold all of it."""
    if isinstance(value, dict | list | tuple):
        return _not_json_within(value, levels)
    match value:
        case None:
            return ""
        case str():
            return "a lone surrogate" if _SURROGATE.search(value) else ""
        case float():
            return "" if math.isfinite(value) else repr(value)
        case int():
            return "" if value.bit_length() < _MOST_BITS else "an integer of over 4200 digits"
        case _:
            return f"{type(value).__name__} {value!r:.100}"
