"""The verdict on each further request of a page, before the request leaves.

The limit is a number, not a rate: the rate limit counts the document, and each document may bring
up to ``render`` further requests to its site (a field of the throttle rule). So a site's log shows
in any window at most ``hits`` documents, each with at most ``render`` requests; the further
requests of a slow page may come a little later.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from crawling.client.curl_request import place_of
from crawlstream.errors import InvalidUrl
from crawlstream.model.statuses import REFUSALS
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import host_of, origin_of
from crawlstream.model.web.address import address

_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "Document": "document",
        "Fetch": "fetch",
        "Font": "font",
        "Image": "image",
        "Media": "media",
        "Other": "script",
        "Script": "script",
        "Stylesheet": "stylesheet",
        "XHR": "fetch",
    }
)
"""Crawlstream's type of a request by the browser's; requests of other types are never sent.
``Other`` is the script of a worker."""
_INSIDE = frozenset({"about", "blob", "data"})
"""Schemes of URLs that the browser loads without a connection."""
_ENDS_HOST = re.compile(r"[/?#\\]")
_PLACES_REMEMBERED = 4096
_REST_S = 60.0
"""Seconds without further requests from this crawler to a site that refused one."""
_MOST_RESTS = 10_000
_SIMPLE_METHODS = frozenset({"GET", "HEAD", "POST"})
_SIMPLE_HEADERS = frozenset({"accept", "accept-language", "content-language", "content-type"})
_SIMPLE_CONTENT = ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain")


class Decision(StrEnum):
    """The decision about a request."""

    SENT = "sent"
    INSIDE = "inside"
    """The browser loads it without a connection: ``data:`` and the like."""
    TYPE = "type"
    """Requests of this type, or with this kind of URL, are not sent."""
    CAPPED = "capped"
    ROBOTS = "robots"
    BLOCKED = "blocked"
    """The operator has blocked or paused its site."""
    REFUSED = "refused"
    """Its site has refused a further request less than ``_REST_S`` ago."""

    @property
    def may_leave(self) -> bool:
        """Return whether the browser may continue the request."""
        return self in _GO_ON


_GO_ON = frozenset({Decision.SENT, Decision.INSIDE})


class Rests:
    """Sites that have recently refused a further request of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._until: dict[str, float] = {}

    def note_status(self, site: str, status: int) -> None:
        """Note the status of a site's answer."""
        if status in REFUSALS:
            self.note(site)

    def note(self, site: str) -> None:
        """Note that a site refuses further requests."""
        if len(self._until) >= _MOST_RESTS:
            self._until.clear()
        self._until[site] = self._clock() + _REST_S

    def __contains__(self, site: str) -> bool:
        return self._until.get(site, 0.0) > self._clock()


@dataclass(frozen=True, slots=True)
class FurtherRequest:
    """A further request as the browser reports it."""

    url: str
    kind: str
    """The browser's type of the request."""
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, paused: Mapping[str, Any]) -> Self:
        """Return the request of the browser's event ``Fetch.requestPaused``."""
        request = paused["request"]
        return cls(request["url"], paused["resourceType"], request["method"], request["headers"])

    @property
    def type(self) -> str | None:
        """Return crawlstream's type of the request; None: it is never sent."""
        told = {name.lower(): value for name, value in self.headers.items()}
        purpose = told.get("purpose", "") + told.get("sec-purpose", "")
        if "prefetch" in purpose or told.get("accept") == "text/event-stream":
            return None
        return _KINDS.get(self.kind)

    @property
    def is_simple(self) -> bool:
        """Return whether a browser sends it cross-origin without a preflight request (CORS)."""
        names = {name.lower(): value for name, value in self.headers.items()}
        content = names.get("content-type", "text/plain").partition(";")[0].strip().lower()
        return (
            self.method in _SIMPLE_METHODS
            and content in _SIMPLE_CONTENT
            and all(
                name in _SIMPLE_HEADERS or name.startswith("sec-") or name in _BY_ITSELF
                for name in names
            )
        )


_BY_ITSELF = frozenset({"origin", "referer", "user-agent", "cookie", "upgrade-insecure-requests"})
"""Headers that the browser adds."""


class _Place(NamedTuple):
    """Throttle rules for a scheme, host and port."""

    site: str
    rule: ThrottleRule
    is_blocked: bool
    most: int
    """Limit of further requests to the site."""


@dataclass(slots=True)
class Judge:
    """Decides about the further requests of one page."""

    origin: str
    """Scheme, host and port of the page."""
    site: str
    """Rate-limit unit of the page."""
    table: ThrottleTable
    types: frozenset[str]
    most: int
    """Limit of further requests to all sites together."""
    robots: Callable[[str], Awaitable[bool]]
    """True if the robots.txt of its origin allows a URL; asked for the page's own origin."""
    rests: Rests
    may_send: Callable[[], bool]
    """True if this worker certainly still has the lease of the page."""
    sent: int = 0
    own: int = 0
    """Number of sent requests to the page's own site."""
    refused: int = 0
    """Number of requests that were refused."""
    credits: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Unused credits by host and port: for requests, with TLS for connections."""
    is_strict: bool = False
    """True for requisites: ``robots`` decides about all origins, and the rule of each other site
    limits the requests to it."""
    elsewhere: Counter[str] = field(default_factory=Counter)
    """Number of sent requests to each other site, if it is strict."""
    _places: dict[str, _Place] = field(default_factory=dict)
    """Rules by scheme, host and port, as URLs have them."""

    async def verdict(self, asked: FurtherRequest) -> Decision:
        """Return the verdict on a request; count it if it may leave."""
        scheme = asked.url.partition(":")[0].lower()
        if scheme in _INSIDE:
            return Decision.INSIDE
        if scheme not in {"http", "https"} or asked.type not in self.types:
            return Decision.TYPE
        try:
            origin = _origin_in(asked.url)
        except InvalidUrl:
            return Decision.TYPE
        if verdict := self.why_not(asked.url):
            return verdict
        if (self.is_strict or origin == self.origin) and not await self.robots(asked.url):
            return Decision.ROBOTS
        # The browser sends a preflight before such a request and does not report it.
        cost = 1 if origin == self.origin or asked.is_simple else 2
        verdict = self._count(cost, self._place(asked.url))
        if verdict is Decision.SENT:
            self.let_go(asked.url, cost)
        return verdict

    def let_go(self, url: str, cost: int = 1) -> None:
        """Allow ``cost`` more requests to the host and port of a URL.

        With TLS, connections are counted. A browser makes a second one where a certificate is
        invalid and need not be valid: the first ends with the handshake.
        """
        self.credits[place_of(url)] += cost * (2 if url.startswith("https:") else 1)

    def spend(self, host: str, port: int) -> bool:
        """Use a credit for a request or connection to a place; return whether there was one."""
        place = (host.strip("[]"), port)
        if not self.credits[place]:
            return False
        self.credits[place] -= 1
        return True

    def why_not(self, url: str) -> Decision | None:
        """Return the verdict that refuses all requests to the site of a URL, if there is one."""
        place = self._place(url)
        if place.is_blocked or place.rule.is_paused or not place.rule.effective_hits:
            return Decision.BLOCKED
        return Decision.REFUSED if place.site in self.rests else None

    def site_of(self, url: str) -> str:
        """Return the rate-limit unit of a URL."""
        return self._place(url).site

    def _place(self, url: str) -> _Place:
        """Return the rules of the place of a URL, which are looked up once for a page."""
        end = url.find("/", url.find("//") + 2)
        name = url[:end] if end > 0 else url
        if (place := self._places.get(name)) is None:
            table, site = self.table, self.table.site_of(url)
            most, is_blocked = table.rule_for(site).render, table.block_of(url) is not None
            place = self._places[name] = _Place(site, table.rule_for(url), is_blocked, most)
        return place

    def _count(self, cost: int, place: _Place) -> Decision:
        site = place.site
        is_own = site == self.site
        sent = self.own if is_own else self.elsewhere[site] if self.is_strict else None
        if sent is not None and sent + cost > place.most:
            return Decision.CAPPED
        if self.sent + cost > self.most or not self.may_send():
            return Decision.CAPPED
        self.sent += cost
        if is_own:
            self.own += cost
        elif self.is_strict:
            self.elsewhere[site] += cost
        return Decision.SENT

    def answered(self, url: str, status: int) -> bool:
        """Note the answer to a further request; return whether the page's own site refused it."""
        try:
            site = self.site_of(url)
        except (InvalidUrl, ValueError):
            return False
        self.rests.note_status(site, status)
        return site == self.site and status in REFUSALS


def _origin_in(url: str) -> str:
    """Return the origin of a URL that the browser reports.

    InvalidUrl where the host is not in its canonical form (a dot behind it, a user name in front):
    the browser would not connect to the host that was judged.
    """
    scheme, _, rest = url.partition("://")
    return _origin_at(f"{scheme}://{_ENDS_HOST.split(rest, maxsplit=1)[0]}/")


@lru_cache(_PLACES_REMEMBERED)
def _origin_at(url: str) -> str:
    place = address(url)
    if host_of(place) != host_of(url):
        raise InvalidUrl(f"{host_of(url)[:100]!r} is not the canonical form of {host_of(place)}")
    return origin_of(place)
