"""How a site reacted, read from a response or an error."""

from __future__ import annotations

import pytest
from scrapy.exceptions import DownloadConnectionRefusedError, DownloadTimeoutError
from scrapy.http import Response

from crawling.lease.expired import GrantExpired
from crawling.lease.leases import Leases
from crawling.response.site_feedback import (
    reaction_to,
    reaction_to_failure,
    reported,
    retry_after,
)
from crawlstream.boot.addresses import AddressRefused
from crawlstream.model.throttle_table import Reaction, SiteReaction
from support.crawler.leases import Clock, lease

NOON = "Sat, 21 Nov 2026 12:00:00 GMT"
NOON_S = 1_795_262_400


def response(status: int = 429, **headers: str) -> Response:
    """A response with some headers."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response("http://a.example/", status=status, headers=named)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, (0, 0)),
        ({"Retry_After": "7"}, (7, 0)),
        ({"Retry_After": " 7 "}, (7, 0)),
        ({"Retry_After": "0"}, (0, 0)),
        ({"Retry_After": "9" * 400}, (10**8, 0)),
        ({"Retry_After": "-7"}, (0, 0)),
        ({"Retry_After": "1.5"}, (0, 0)),
        ({"Retry_After": "\u0667"}, (0, 0)),
        ({"Retry_After": "soon"}, (0, 0)),
        ({"Retry_After": ""}, (0, 0)),
        ({"Retry_After": NOON}, (0, NOON_S)),
        ({"Retry_After": NOON.replace("GMT", "-0000")}, (0, NOON_S)),
        ({"Retry_After": "Sat, 21 Nov 1926 12:00:00 GMT"}, (0, 0)),
        ({"Retry_After": "Sat, 21 Nov 99999 12:00:00 GMT"}, (0, 0)),
        ({"Retry_After": NOON, "Date": NOON.replace("12:00", "11:59")}, (60, 0)),
        ({"Retry_After": NOON, "Date": NOON.replace("12:00", "12:01")}, (0, 0)),
        ({"Retry_After": NOON, "Date": "never"}, (0, NOON_S)),
    ],
)
def test_retry_after_is_seconds_or_a_moment(
    headers: dict[str, str], expected: tuple[float, float]
) -> None:
    """Reads seconds and dates, these by the site's own clock; ignores anything else."""
    assert retry_after(response(429, **headers)) == expected


def test_only_429_and_503_are_refusals() -> None:
    """Every other status is an answer, whatever it says of the page."""
    for status in (200, 301, 404, 500, 502, 504):
        assert reaction_to(response(status, Retry_After="9")) == SiteReaction(Reaction.ANSWER)
    for status in (429, 503):
        assert reaction_to(response(status, Retry_After="9")) == SiteReaction(
            Reaction.REFUSAL, 9_000
        )


@pytest.mark.parametrize(
    ("error", "is_silence"),
    [
        (DownloadConnectionRefusedError(), True),
        (DownloadTimeoutError(), True),
        (AddressRefused(), False),
        (GrantExpired(), False),
        (ValueError(), False),
    ],
)
def test_silence_is_a_connection_that_failed(error: Exception, *, is_silence: bool) -> None:
    """Requests that never reached the site say nothing of it."""
    assert reaction_to_failure(error) == (SiteReaction(Reaction.SILENCE) if is_silence else None)


@pytest.mark.parametrize("is_lent", [False, True])
async def test_a_refused_part_of_a_page_counts_if_the_page_fails(*, is_lent: bool) -> None:
    """Reports the refusal, with a lease to the frontier, without one to the owner of the page."""
    leases = Leases(1, lambda: None, Clock())
    page = leases.admit(lease(1))
    leases.note_answer(0, page.admitted_at, 1)
    leases.set_out(page, page.lease.entry.url)
    leases.depart(page)
    page.is_lent, page.refused = is_lent, SiteReaction(Reaction.REFUSAL)

    async def download() -> Response:
        raise DownloadTimeoutError

    with pytest.raises(DownloadTimeoutError):
        await reported(download(), page, leases)
    sent = [each.heard for each in leases.of(0).report.take().sent]
    assert (sent, page.reaction) == (([], page.refused) if is_lent else ([page.refused], None))
