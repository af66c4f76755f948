"""A page on its way through this process.

It is *waiting* until its request sets out, *connecting* while its host is looked up and reached,
*sent* until its response is there, *received* while it is parsed and published, and *ended* once
its end waits to be reported to the frontier. A *stale* one is leased by another worker: nothing
that still happens to it here is reported. A *spare* one, leased without a grant, only ends.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple

from scrapy.http import Response

from crawling.page.directives import NO_DIRECTIVES, Directives
from crawling.page.guard_notes import GuardNotes
from crawling.page.parsed_page import ParsedPage
from crawling.page.rights import SiteSays
from crawling.quality.traits import Traits
from crawlstream.model.crawl import ANSWER_PAGE, Lease
from crawlstream.model.effects import Links
from crawlstream.model.result import AsSent
from crawlstream.model.throttle_table import SiteReaction
from crawlstream.model.words.price import Price


class Phase(Enum):
    """How far a page has come."""

    WAITING = auto()
    CONNECTING = auto()
    SENT = auto()
    RECEIVED = auto()
    SPILLING = auto()
    """It is over but for its links, which go to Kafka: Redis has no room for them."""
    ENDED = auto()
    STALE = auto()
    """The frontier does not know the lease any more."""
    SPARE = auto()
    """It has no grant: nothing of it may set out."""

    @property
    def is_unsent(self) -> bool:
        """Return whether its request has not been written."""
        return self in _UNSENT

    @property
    def is_download(self) -> bool:
        """Return whether its response is still to come."""
        return self in _DOWNLOADS


# Made once: a set of members costs more than the page's other bookkeeping.
_DOWNLOADS = frozenset({Phase.WAITING, Phase.CONNECTING, Phase.SENT})
_UNSENT = frozenset({Phase.WAITING, Phase.CONNECTING, Phase.SPARE})
_OVER = frozenset({Phase.SPILLING, Phase.ENDED, Phase.STALE})


FURTHER: Final = "requisite"
"""Salt of further requests: the same URL may also be a page of the crawl."""


class Offer(NamedTuple):
    """Payment that was offered, or could have been, with the request of a page."""

    purse: str
    price: Price | None
    """None: the price was not known, or the purse did not pay it."""


class Screenshot(NamedTuple):
    """Picture of a page in a browser."""

    told: Mapping[str, object]
    """Its fields in the result, which have an ``error`` if there is no picture."""
    body: bytes | None = None
    """PNG."""


class DocumentLinks(NamedTuple):
    """Links of a document, which no markup has."""

    urls: Sequence[str]
    refused: Counter[str]
    """Why some are missing."""


@dataclass(slots=True, eq=False)
class Page:
    """A lease on its way through this process."""

    lease: Lease
    id: str
    """Permanent name of the entry: Kafka key and ``id`` of its records."""
    admitted_at: float = 0
    """When this process took it on, by its monotonic clock."""
    phase: Phase = Phase.WAITING
    sent_ms: int | None = None
    """When its request left, counted from the call that asked for the grant."""
    until: float = math.inf
    """No request of it leaves later, by the clock of this process; see ``Robots``."""
    left_at: float = 0
    head_at: float = 0
    """When its response began, by the same clock; 0: it has not.."""
    latency_ms: int = 0
    """From the request's leaving to the last byte of its response."""
    received_at: float = 0
    """Epoch seconds."""
    links: Sequence[Links] = ()
    filtered: Counter[str] = field(default_factory=Counter)
    turned_back: str = ""
    """Where it would have redirected to, but for the scope of its crawl."""
    items: int = 0
    """Items of its spider that are still in the pipelines."""
    publishing: int = 0
    """Items of it that wait for Kafka or the body store."""
    parsed: bool = False
    """The spider has yielded everything it will."""
    failure: str = ""
    """Reason code, once its spider or a pipeline has raised."""
    failure_detail: str = ""
    """The exception that it raised."""
    download_error: Exception | None = None
    """Error of its latest download, which a middleware of the user may hide."""
    status: int = 0
    proxy: Mapping[str, str] | None = None
    """``pool`` and ``id`` of the proxy that its response came through."""
    tls: str | None = None
    """The TLS profile that its requests are sent with; None: the default one."""
    signed: str | None = None
    """The key that its request was signed with; None: it was not."""
    payment: Mapping[str, str | None] | None = None
    """Price and charge that its response names, as its result has them; None: neither."""
    directives: Directives = NO_DIRECTIVES
    """Requests of its response to crawlers."""
    site_says: SiteSays | None = None
    """Statements of the files of its site about uses of it."""
    rights: Mapping[str, object] | None = None
    """Statements about uses of it, as its result has them; None: there are none."""
    dropped: str | None = None
    """The directive, or ``reserved``, by which its body is not kept; None: it is."""
    obeys_directives: bool = False
    """True if its links are followed only as far as it allows."""
    is_watched: bool = False
    """True if text and canonical URL of its response are wanted: the waste guard is not off."""
    guard: GuardNotes | None = None
    """Decisions on its links by the waste guard; None: the mode of its crawl is not ``on``."""
    traits: Traits | None = None
    """Text and canonical URL of its response; None: not read."""
    reading: tuple[bytes, ParsedPage] | None = None
    """Body and markup of its response, if its requisites are still to be found there."""
    document: DocumentLinks | None = None
    """Links of its response if that is a document; None: it is not, or they are not wanted."""
    offer: Offer | None = None
    """Payment with its request; None: whatever sends it, or its crawl, does not pay."""
    as_sent: AsSent | None = None
    """Its response as it was sent; None: its crawl does not keep it, or another client sent it."""
    render: Mapping[str, object] | None = None
    """Time and traffic of the browser that rendered it; None: no browser did."""
    sent_document: Response | None = None
    """Its document as it was sent, until that is compared with the rendered one."""
    links_wait_for: str | None = None
    """Name under which its links wait; None: that of its own lease."""
    screenshot: Screenshot | None = None
    """Its picture, or why there is none; None: its crawl does not want one."""
    refused: SiteReaction | None = None
    """Response of its site to a further request, if that was a refusal (429, 503)."""
    answered: str | None = None
    """The ``uuid`` of its client, once Kafka has the reply about it."""
    located: str | None = None
    """Gate of its site, by the address that it has, where its lease has used another one."""
    is_lent: bool = False
    """True if its request was reserved without a lease: the frontier knows no lease of it."""
    reaction: SiteReaction | None = None
    """Reaction of its site to such a request; None: none, or it shows nothing."""
    body_bytes: int = 0
    cpu_s: float = 0
    """CPU time of this process that it has taken."""

    @property
    def token(self) -> str:
        """Names the lease."""
        return self.lease.token

    @property
    def is_asked_for(self) -> bool:
        """Return whether its client still waits for a reply about it: it is where a seed led."""
        is_wanted = self.lease.profile.answer == ANSWER_PAGE and self.answered is None
        return is_wanted and self.lease.entry.origin is not None

    @property
    def keeps_links(self) -> bool:
        """Return whether none of its links is followed, because it says so."""
        return self.obeys_directives and self.directives.nofollow

    @property
    def is_further(self) -> bool:
        """Return whether it stands for a further request of a page, which no grant pays for."""
        return self.is_lent and self.lease.entry.salt == FURTHER

    @property
    def keeps_bytes(self) -> bool:
        """Return whether its response is kept as it is sent, which only libcurl can do.

        A third attempt is Scrapy's in any case: its client accepts servers that libcurl refuses.
        """
        return self.lease.retries < 2 and bool(self.lease.profile.archive)

    @property
    def is_open(self) -> bool:
        """Return whether its end is still to come from here."""
        return self.phase not in _OVER
