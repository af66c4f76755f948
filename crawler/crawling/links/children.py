"""Links and requests of a page, on their way into the frontier.

A spider hands over a whole page's worth of links as :class:`Outlinks`; they never become
``scrapy.Request`` objects in the process that found them. The requests of a user's own spider
are batched here as well. Either way the children travel in the call that ends their parent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from hashlib import blake2b

from scrapy import Request, Spider
from scrapy.http import Response

from crawling.links.encoded import EncodedLinks
from crawling.links.requests import callback_of, cookies_of, headers_of, meta_of
from crawling.links.traps import NO_TRAPS, Traps
from crawling.page import referrer as referrers
from crawling.page.page import Page
from crawling.page.scrapy_request import InheritedSpider
from crawlstream.errors import InvalidUrl
from crawlstream.model.crawl import READS_SITEMAP, Entry
from crawlstream.model.effects import FOUND, FOUND_EARLY, Links
from crawlstream.model.egress.render import lanes_of
from crawlstream.model.recurring.validators import CONDITIONS
from crawlstream.model.url import domain_key, fingerprint, host_of, link_url, look_up_link
from crawlstream.wire.stored import LinkEncoder, encode_entry, encode_version, short_extras
from crawlstream_frontier.link_rules.host_budgets import Standing, raised
from crawlstream_frontier.link_rules.promotion import in_tens, is_promoted, unpromoted
from crawlstream_frontier.waste.last_band import LOWEST, last_of, lifted

LEVEL_STEP = -10
"""Priority that each level of depth costs: breadth comes first within a domain."""

_FARTHEST = 8_000
"""Priorities stay within this: beyond, the frontier could not order the turns of a band."""

_LARGEST_ENTRY = 256 * 1024
"""Bytes of a request as the frontier keeps it: a thousand of them fit into one call of Redis."""

_NOT_IN_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_LONGEST_NAME = 255
"""Characters of a spider's name, as the schema of requests has it."""

_LINKS_REMEMBERED = 32_768
"""The pages of a site share most of their links; some 15 MB."""
looked_up = lru_cache(_LINKS_REMEMBERED)(look_up_link)
"""``look_up_link`` without a salt, with the latest answers in memory."""


@dataclass(frozen=True, slots=True)
class Outlinks:
    """Absolute URLs to follow from a page with GET, one level deeper, by the same callback.

    ``refused`` counts, by reason, links left out, as ``links_of`` returns them, for the crawl's
    ``filtered``. ``spiderid`` names another spider that shall fetch them, by its ``parse``.
    ``texts``, if there are any, has the text of each link, for the priority rules of the crawl.
    ``versions``, if there are any, has a text for each URL: a page is fetched once for each of its
    versions, and one whose version is empty once.
    """

    urls: Sequence[str]
    refused: Mapping[str, int] = field(default_factory=dict)
    spiderid: str | None = None
    versions: Sequence[str] = ()
    texts: Sequence[str] = ()

    def __post_init__(self) -> None:
        """TypeError for a single URL, whose letters would be followed, and for odd arguments."""
        if isinstance(self.urls, str):
            raise TypeError("Outlinks needs a list of URLs, not a single one")
        if self.versions and len(self.versions) != len(self.urls):
            raise TypeError("versions of Outlinks must be as many as its URLs")
        if self.texts and len(self.texts) != len(self.urls):
            raise TypeError("texts of Outlinks must be as many as its URLs")
        if self.spiderid is not None and not _is_spider_name(self.spiderid):
            raise TypeError(f"spiderid of Outlinks is not a valid name: {self.spiderid!r:.100}")


class Children:
    """The children of one page, grouped as the frontier takes them."""

    def __init__(
        self, page: Page, traps: Traps = NO_TRAPS, *, spider: Spider | None = None
    ) -> None:
        """``spider`` parses the page; it need not be that of the crawl. A redirect has none."""
        self._page = page
        self._spider = spider
        self._traps = traps
        self._groups: dict[tuple[str, int, str | None, bool], tuple[Links, EncodedLinks]] = {}
        self._seen: set[str] = set()
        self._ordinal = 0
        lease, is_guarded = page.lease, page.guard is not None
        self._own = lifted(lease.priority) if is_guarded else lease.priority
        self._linked = 0
        if lease.profile.score:
            self._linked = FOUND_EARLY if is_promoted(self._own) else FOUND
            self._own = unpromoted(self._own)
        self._standing = Standing.of(lease)
        if self._standing:
            self._own = raised(self._own)
        self._lowest = LOWEST if is_guarded or self._standing else -_FARTHEST
        callback = lease.entry.callback
        self._callback = None if callback == READS_SITEMAP else callback

    @property
    def groups(self) -> Sequence[Links]:
        """Return one group for each domain, priority and spider."""
        return [group for group, _entries in self._groups.values()]

    def follow(
        self,
        urls: Iterable[str],
        response: Response,
        *,
        spiderid: str | None = None,
        change: int = 0,
        is_last: bool = False,
    ) -> None:
        """Add plain links, for another spider if one is named.

        ``change`` is added to the priority of their depth. ``is_last``: they wait until nothing
        else of their domain waits.
        """
        page, entry = self._page, self._page.lease.entry
        priority = self._below(change, is_last=is_last)
        other = self._other(spiderid)
        adding_to = _encoder(response, entry, None if other else self._callback)
        seen, harmless = self._seen, self._traps.harmless
        adding: dict[str, tuple[Callable[[str], None], Callable[[str], None]]] = {}
        duplicates = 0
        for url in urls:
            try:
                clean, domain, identity = looked_up(url)
            except InvalidUrl:
                page.filtered["url" if url.startswith(("http:", "https:")) else "scheme"] += 1
                continue
            if clean.count("/") > harmless and self._is_refused(clean):
                continue
            if identity in seen:
                duplicates += 1
                continue
            seen.add(identity)
            if (add := adding.get(domain)) is None:
                group, entries = self._group((domain, priority, other, True))
                add = adding[domain] = (group.fingerprints.append, adding_to(entries))
            add[0](identity)
            add[1](clean)
        if duplicates:
            page.filtered["duplicate"] += duplicates

    def follow_versions(
        self, links: Outlinks, response: Response, *, change: int = 0, is_last: bool = False
    ) -> None:
        """Add links, each known by its version as well; those without one are plain."""
        plain = [
            url for url, version in zip(links.urls, links.versions, strict=True) if not version
        ]
        self.follow(plain, response, spiderid=links.spiderid, change=change, is_last=is_last)
        page, entry, other = self._page, self._page.lease.entry, self._other(links.spiderid)
        priority = self._below(change, is_last=is_last)
        encode = _version_encoder(response, entry, None if other else self._callback)
        seen, harmless = self._seen, self._traps.harmless
        adding: dict[str, tuple[Callable[[str], None], Callable[[bytes], None]]] = {}
        for link, version in zip(links.urls, links.versions, strict=True):
            if not version:
                continue
            salt = f"v {version}"
            try:
                url, domain, identity = look_up_link(link, salt)
            except InvalidUrl:
                page.filtered["url" if link.startswith(("http:", "https:")) else "scheme"] += 1
                continue
            if url.count("/") > harmless and self._is_refused(url):
                continue
            if identity in seen:
                page.filtered["duplicate"] += 1
                continue
            seen.add(identity)
            if (add := adding.get(domain)) is None:
                group, entries = self._group((domain, priority, other, True))
                add = adding[domain] = (group.fingerprints.append, entries.append)
            add[0](identity)
            add[1](encode(url, salt))

    def _below(self, change: int, *, is_last: bool = False) -> int:
        """Return the priority of a child, within what the frontier can order."""
        priority = max(self._lowest, min(self._own + LEVEL_STEP + change, _FARTHEST))
        if self._linked or self._standing:
            priority = in_tens(priority)
        return last_of(priority) if is_last else priority

    def _other(self, spiderid: str | None) -> str | None:
        """Return under which name a child waits; None where the spider of its page keeps it."""
        if spiderid is None or (self._spider and spiderid == self._spider.name):
            return None
        lease = self._page.lease
        if spiderid == lease.crawl.spiderid:
            return lanes_of(spiderid, lease.profile.render)[0]
        return spiderid

    def _spider_of(self, request: Request) -> str | None:
        """Return the spider that a request names; one that was copied with all meta names none."""
        name: object = request.meta.get("spiderid")
        if name is None or name == "" or isinstance(name, InheritedSpider):
            return None
        if not isinstance(name, str) or not _is_spider_name(name):
            raise TypeError(
                f'meta["spiderid"] of {request} is not a valid spider name: {name!r:.100}'
            )
        return name

    def request(self, request: Request, response: Response, change: int = 0) -> None:
        """Add a request of a user's spider; TypeError if it cannot be kept as it is."""
        page, lease = self._page, self._page.lease
        try:
            url = link_url(request.url)
        except InvalidUrl:
            page.filtered["url"] += 1
            return
        if self._is_refused(url):
            return
        entry = Entry(
            url=url,
            depth=lease.entry.depth + 1,
            parent_url=response.url,
            callback=callback_of(request, self._spider),
            method=request.method,
            headers=referrers_of(response)(url) | self._headers_of(request),
            body=request.body or None,
            cookies=cookies_of(request),
            meta=meta_of(request),
            salt=self._salt(request, url) if request.dont_filter else None,
            moved_to=lease.entry.moved_to,
        )
        priority = self._below(change + request.priority)
        other = self._other(self._spider_of(request))
        self.add(entry, priority, spiderid=other, most=_LARGEST_ENTRY)

    def add(
        self,
        entry: Entry,
        priority: int,
        *,
        spiderid: str | None = None,
        counts: bool = True,
        most: int | None = None,
    ) -> None:
        """Add one entry, unless this page has led to the same before.

        ValueError if it is stored in more than ``most`` bytes.
        """
        body = entry.body or b""
        identity = fingerprint(entry.url, entry.method, body, entry.salt or "")
        if entry.origin is not None:
            # A seed's redirect enters though its page is known; from then on the page is known.
            identity = f"{identity} {fingerprint(entry.url, entry.method, body)}"
        if self._is_duplicate(identity):
            return
        stored = encode_entry(entry)
        if most is not None and len(stored) > most:
            raise ValueError(
                f"the request for {entry.url:.100} is too large: {len(stored)} bytes with its"
                f" meta and body; the maximum is {most}"
            )
        domain = domain_key(host_of(entry.url))
        group, entries = self._group((domain, priority, spiderid, counts))
        group.fingerprints.append(identity)
        entries.append(stored)

    def _headers_of(self, request: Request) -> dict[str, str]:
        """Its own; not what the client knows of the page that a spider has made it from."""
        headers, known = headers_of(request), self._page.lease.entry.headers
        return {
            name: value
            for name, value in headers.items()
            if name.lower() not in CONDITIONS or known.get(name) != value
        }

    def _is_refused(self, url: str) -> bool:
        trap = self._traps.refuses(url)
        if trap:
            self._page.filtered[trap] += 1
        return trap is not None

    def _is_duplicate(self, identity: str) -> bool:
        if identity in self._seen:
            self._page.filtered["duplicate"] += 1
            return True
        self._seen.add(identity)
        return False

    def _group(self, key: tuple[str, int, str | None, bool]) -> tuple[Links, EncodedLinks]:
        found = self._groups.get(key)
        if found is None:
            domain, priority, spiderid, counts = key
            entries = EncodedLinks()
            group = Links(
                domain=domain,
                priority=priority,
                spiderid=spiderid or self._page.links_wait_for,
                counts=counts,
                linked=self._linked if counts else 0,
                standing=self._standing.to(domain) if self._standing and counts else "",
                entries=entries,
            )
            found = self._groups[key] = (group, entries)
        return found

    def _salt(self, request: Request, url: str) -> str:
        """Return the salt of an undeduplicated request: the same when its page is fetched again."""
        self._ordinal += 1
        plain = fingerprint(url, request.method, request.body)
        text = f"{self._page.id} {plain} {self._ordinal}"
        return blake2b(text.encode(), digest_size=8).hexdigest()


def _is_spider_name(name: object) -> bool:
    """Return whether a request could name such a spider."""
    is_name = isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME
    return is_name and not _NOT_IN_NAME.search(str(name))


def _encoder(
    response: Response, above: Entry, callback: str | None
) -> Callable[[EncodedLinks], Callable[[str], None]]:
    """Return a function that adds links to entries: the short way where they have only a URL."""
    parent, referrer_of = response.url, referrers_of(response)
    if callback is None and referrer_of is _as_usual:
        encoder = LinkEncoder(above.depth + 1, parent.encode(), above.moved_to)
        return lambda entries: entries.appender(encoder)
    encode = _long_encoder(response, above, callback)
    return lambda entries: lambda url: entries.append(encode(url, None))


def _version_encoder(
    response: Response, above: Entry, callback: str | None
) -> Callable[[str, str], bytes]:
    """Return a function from URL and salt to an entry: the short way where it has no more."""
    if callback is None and referrers_of(response) is _as_usual:
        depth, short, moved_to = above.depth + 1, response.url.encode(), above.moved_to
        return lambda url, salt: encode_version(url, depth, short, short_extras(salt, moved_to))
    return _long_encoder(response, above, callback)


def _long_encoder(
    response: Response, above: Entry, callback: str | None
) -> Callable[[str, str | None], bytes]:
    """Return a function from URL and salt to an entry below that of its page."""
    referrer_of = referrers_of(response)
    below = Entry(
        url="",
        depth=above.depth + 1,
        parent_url=response.url,
        callback=callback,
        moved_to=above.moved_to,
    )
    return lambda url, salt: encode_entry(
        replace(below, url=url, salt=salt, headers=referrer_of(url))
    )


def referrers_of(response: Response) -> Callable[[str], dict[str, str]]:
    """Return the header that a child needs because its referrer is not its page."""
    policy = referrers.policy_of(response.headers.getlist(b"Referrer-Policy"))
    if policy is referrers.usual:
        return _as_usual
    page = response.url

    def by_policy(url: str) -> dict[str, str]:
        referrer = policy(page, url)
        return {} if referrer == referrers.usual(page, url) else {"Referer": referrer}

    return by_policy


def _as_usual(_url: str) -> dict[str, str]:
    return {}
