"""How a site reacted to a request: what its throttle state must know at once.

Told before anything else is made of the response, and whatever the request was for: a page or a
robots.txt. What becomes of the page itself is decided in :mod:`crawling.response.outcome`.
"""

from __future__ import annotations

import traceback
from collections.abc import Awaitable

from scrapy.http import Response

from crawling.failures import PathFailed, reason_of
from crawling.lease.leases import Leases
from crawling.metrics import SIGNATURES_REFUSED
from crawling.page.http_date import moment
from crawling.page.page import Page
from crawling.response.clock_skew import ClockSkew
from crawlstream.model.statuses import REFUSALS
from crawlstream.model.throttle_table import Reaction, SiteReaction

_SILENCES = frozenset({"connection_lost", "refused", "timeout", "tls", "unreachable"})
"""Reasons after which a site is taken for unreachable, if they repeat. A name without an address is
not among them: no server was contacted."""

_ABOUT_SIGNATURES = frozenset({"CrawlerForbidden", "InvalidSignature", "StrongAuthRequired"})
"""Codes of ``crawler-error`` by which a site refuses the signature or its owner."""

_SKEW = ClockSkew()

_LONGEST_S = 10**8
"""Longer pauses are nonsense; the frontier's own limit is far below."""


def reaction_to(response: Response) -> SiteReaction:
    """Return what a response means for its site."""
    if response.status not in REFUSALS:
        return SiteReaction(Reaction.ANSWER)
    wait_s, until_s = retry_after(response)
    return SiteReaction(Reaction.REFUSAL, int(wait_s * 1000), int(until_s * 1000))


def reaction_to_failure(error: BaseException) -> SiteReaction | None:
    """Return what a failed download means for its site; None: nothing."""
    if isinstance(error, PathFailed):
        return SiteReaction(Reaction.SILENCE) if error.is_silent else None
    return SiteReaction(Reaction.SILENCE) if reason_of(error) in _SILENCES else None


async def reported(download: Awaitable[Response], page: Page, leases: Leases) -> Response:
    """Return the response of a download; queue its end and its site's reaction for the frontier."""
    heard: SiteReaction | None = None
    try:
        response = await download
        if page.signed:
            _SKEW.note(response)
            if code := _refused_signature(response):
                SIGNATURES_REFUSED.labels(code).inc()
        heard = page.refused or reaction_to(response)
    except BaseException as error:
        heard = page.refused or reaction_to_failure(error)
        # Its failure waits for Kafka, and must not carry what had come in.
        traceback.clear_frames(error.__traceback__)
        leases.body_budget.drop(page)
        raise
    finally:
        leases.receive(page, heard)
    return response


def _refused_signature(response: Response) -> str:
    """Return why a site refuses a signature; empty if it does not."""
    if code := _text(response, b"Crawler-Error"):
        return code if code in _ABOUT_SIGNATURES else "other"
    is_asked = response.status in {401, 403} and b"Accept-Signature" in response.headers
    return "accept_signature" if is_asked else ""


def retry_after(response: Response) -> tuple[float, float]:
    """Seconds that Retry-After asks for, or the epoch second it names; the other one is 0.

    A date is relative to the site's own clock if it sends that (Date): clocks may differ by any
    amount.
    """
    asked = _text(response, b"Retry-After")
    if asked.isdecimal() and asked.isascii():
        return min(int(asked[:10]), _LONGEST_S), 0
    until, site_now = moment(asked), moment(_text(response, b"Date"))
    if until is None or until <= 0:
        return 0, 0
    if site_now is None or site_now <= 0:
        return 0, until
    return min(max(until - site_now, 0), _LONGEST_S), 0


def _text(response: Response, name: bytes) -> str:
    return (response.headers.get(name) or b"").decode("latin-1").strip()
