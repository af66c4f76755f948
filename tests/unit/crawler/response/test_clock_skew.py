"""This machine's clock, compared with those of sites."""

from __future__ import annotations

from email.utils import formatdate

from scrapy.http import Response

from crawling.metrics import CLOCK_SKEW
from crawling.response.clock_skew import ClockSkew

NOW = 1_795_840_061.5


def _response(behind_s: float | None) -> Response:
    date = {} if behind_s is None else {"Date": formatdate(NOW - behind_s, usegmt=True)}
    return Response("http://example.com/", headers=date)


def test_the_skew_is_the_median_of_31_sites() -> None:
    """Takes the median of 31 sites, whatever some of them send, and forgets earlier responses."""
    skew = ClockSkew(every=2, clock=lambda: NOW)
    CLOCK_SKEW.set(-1)
    told = [7.0] * 16 + [None, -9e8, 3e8] * 8
    for behind_s in told[:39]:
        assert CLOCK_SKEW._value.get() == -1
        skew.note(_response(12345))
        skew.note(_response(behind_s))
    assert CLOCK_SKEW._value.get() == 7.0
    for _ in range(31):
        skew.note(_response(1.0))
        skew.note(_response(0.0))
    assert CLOCK_SKEW._value.get() == 0.0
