"""Redirects: a response that sends to another URL becomes a request of its own.

Its target waits in the frontier like any link, is charged to its own domain, and is fetched once
a crawl however many pages point to it; but where a seed leads, it is fetched each time that the
seed is. It keeps the depth of its source and carries the chain; what the client knows of the page
that it asked for is not known of the target. One that leads out of the scope of its crawl is not
followed (:mod:`crawling.links.scope`): the response is the page's result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

from scrapy import Request
from scrapy.http import HtmlResponse, Response

from crawling.links.scope import OF_THE_CRAWL, RedirectRules, moved_to
from crawling.page import chain_cookies
from crawling.page import referrer as referrers
from crawling.page.page import Page
from crawling.response.refresh import refresh_of
from crawlstream.model.crawl import Entry
from crawlstream.model.credentials import NAMES, may_follow
from crawlstream.model.recurring.validators import CONDITIONS
from crawlstream.model.url import fingerprint
from crawlstream.model.web.address import MAX_URL_LENGTH, resolved

MAX_REDIRECTS = 10
"""Hops of one chain; browsers stop at 20, and each hop here is paid for."""

_LONGEST_TARGET = 8 * MAX_URL_LENGTH
"""Characters of a Location; longer ones are refused, as they take long to parse."""

_KEEPS_METHOD = frozenset({307, 308})
_STATUSES = frozenset({301, 302, 303}) | _KEEPS_METHOD
_OF_THE_BODY = frozenset(
    {"content-type", "content-length", "content-encoding", "content-language", "content-location"}
)


def redirect_of(
    page: Page, response: Response, refresh_s: float = 0, rules: RedirectRules = OF_THE_CRAWL
) -> Entry | str | None:
    """Return where a response sends to: an entry, the reason why the chain ends here, or None.

    None means that the response is the page's result: no redirect, or none that is followed.
    A page that refreshes to another one in less than ``refresh_s`` seconds sends there as well;
    one that comes back to its chain, as a ticker does, or a chain too long, ends with the result.
    """
    entry = page.lease.entry
    chain = (*entry.redirect_urls, entry.url)
    status, target = response.status, _target(entry.url, response)
    if target is None:
        status, target = 303, _refreshed(response, chain, refresh_s)
    if target is None or rules.refuse(page, target):
        return None
    return _followed(page, _with_method(entry, status), target, _cookies(entry, target, response))


def sent_elsewhere(page: Page, request: Request) -> Entry | str | None:
    """Return the same for a request by a user's middleware with another URL, method or body.

    None: it is the page's own request.
    """
    entry, target = page.lease.entry, _usable(page.lease.entry.url, request.url)
    if target is None:
        return "invalid_request"
    asked = replace(entry, method=request.method, body=request.body or None)
    if _identity(target, asked) == _identity(entry.url, entry):
        return None
    return _followed(page, asked, target, entry.cookies)


def leads_on(page: Page, url: str, rules: RedirectRules) -> bool:
    """Return whether a script of a page may lead to a URL: new and in scope, like a refresh."""
    entry = page.lease.entry
    chain = (*entry.redirect_urls, entry.url)
    target = _usable(entry.url, url)
    if target is None or len(chain) > MAX_REDIRECTS:
        return False
    was_here = fingerprint(target) in map(fingerprint, chain)
    return not was_here and not rules.refuse(page, target)


def moved_to_clean(page: Page, url: str, rules: RedirectRules) -> Entry | None:
    """Return the entry of a page under a URL that means the same; None if it stays what it is.

    Seeds do, and requests of their own: their clients want them as they are.
    """
    entry = page.lease.entry
    is_plain = entry.method == "GET" and entry.origin is None and entry.salt is None
    if not is_plain or entry.body or not leads_on(page, url, rules):
        return None
    followed = _followed(page, entry, url, entry.cookies)
    return None if isinstance(followed, str) else followed


def _identity(url: str, entry: Entry) -> str:
    return fingerprint(url, entry.method, entry.body or b"")


def _followed(page: Page, entry: Entry, target: str, cookies: Mapping[str, str]) -> Entry | str:
    """The entry of a target, or why it is not followed."""
    chain = (*entry.redirect_urls, entry.url)
    if len(chain) > MAX_REDIRECTS:
        return "too_many_redirects"
    was_here = fingerprint(target) in map(fingerprint, chain)
    if was_here and target in chain and cookies == entry.cookies:
        return "redirect_loop"
    salted = was_here or entry.salt is not None or entry.origin is not None
    followed = replace(
        entry,
        url=target,
        headers=_without(entry.headers, CONDITIONS),
        redirect_urls=chain,
        cookies=cookies,
        salt=_salt(page, len(chain)) if salted else None,
        moved_to=moved_to(page.lease, target),
    )
    followed = _with_referrer(followed)
    return followed if may_follow(target, entry.url) else _abroad(followed)


def _with_referrer(entry: Entry) -> Entry:
    """Shorten a Referer that its page's policy allowed for another URL to the usual one.

    It stays shortened for the rest of the chain.
    """
    said = {name: value for name, value in entry.headers.items() if name.lower() == "referer"}
    if not any(said.values()):
        return entry
    shorter = {name: referrers.usual(value, entry.url) for name, value in said.items()}
    return replace(entry, headers={**entry.headers, **shorter})


def _target(url: str, response: Response) -> str | None:
    location = response.headers.get(b"Location")
    if response.status not in _STATUSES or not location:
        return None
    return _usable(url, location)


def _refreshed(response: Response, chain: Sequence[str], within_s: float) -> str | None:
    """Return the target of a refresh in the head of a page, if it is another page."""
    if not isinstance(response, HtmlResponse) or len(chain) > MAX_REDIRECTS:
        return None
    delay_s, url = refresh_of(response) or (within_s, "")
    if delay_s >= within_s:
        return None
    target = _usable(response.url, url)
    was_here = target and fingerprint(target) in map(fingerprint, chain)
    return None if was_here else target


def _usable(base: str, url: str | bytes) -> str | None:
    """Return the address that a reference leads to, if it can be requested."""
    target = resolved(base, url) if len(url) <= _LONGEST_TARGET else None
    return target if target and len(target) <= MAX_URL_LENGTH else None


def _with_method(entry: Entry, status: int) -> Entry:
    """Only 307 and 308 send the body again; a POST becomes a GET, as browsers do it."""
    becomes_get = (status in {301, 302} and entry.method == "POST") or (
        status == 303 and entry.method not in {"GET", "HEAD"}
    )
    if not becomes_get:
        return entry
    return replace(entry, method="GET", body=None, headers=_without(entry.headers, _OF_THE_BODY))


def _abroad(entry: Entry) -> Entry:
    """Remove from an entry for another site the headers and cookies that identify the client."""
    return replace(entry, headers=_without(entry.headers, NAMES), cookies={})


def _without(headers: Mapping[str, str], names: frozenset[str]) -> Mapping[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in names}


def _cookies(entry: Entry, target: str, response: Response) -> Mapping[str, str]:
    """Return the chain's cookies for the target: earlier ones and those set by this response."""
    if not may_follow(target, entry.url):
        return {}
    return chain_cookies.after(entry.cookies, entry.url, response.headers.getlist(b"Set-Cookie"))


def _salt(page: Page, hops: int) -> str:
    """Return what sets a target apart from the same page elsewhere, or before in its chain.

    It is the same when the page is fetched again, so that its target enters once.
    """
    return blake2b(f"{page.id} {hops}".encode(), digest_size=8).hexdigest()
