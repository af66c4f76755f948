"""Responses whose Content-Length is not that of a body which comes."""

from __future__ import annotations

import pytest

from crawling.failures import reason_of
from crawling.response.codings import Undecoded
from crawling.robots.request import ROBOTS
from crawlstream_chaos.scripted_site import Answer, serving
from support.crawler.visitor import visiting


def bodiless(status: int) -> Answer:
    """The head of a response that names 5 GB, and nothing behind it."""
    head = f"HTTP/1.1 {status} Any\r\nConnection: close\r\nLocation: /there\r\n"
    return Answer(raw=(head + "Content-Length: 5000000000\r\n\r\n").encode())


@pytest.mark.parametrize("status", [200, 404])
async def test_head_of_something_large_is_a_result(status: int) -> None:
    """Its Content-Length is what the client wants to know; a GET of the same is too large."""
    with serving({"/big.iso": bodiless(status)}) as site, visiting(timeout_s=3.0) as visitor:
        response = await visitor.fetch(site.url("/big.iso"), method="HEAD")
        assert (response.status, response.headers["Content-Length"]) == (status, b"5000000000")
        assert await visitor.outcome(site.url("/big.iso")) == "too_large"


@pytest.mark.parametrize("status", [204, 304])
async def test_a_status_without_a_body_is_never_too_large(status: int) -> None:
    """Takes what the status says for true, whatever the length says."""
    with serving({"/none": bodiless(status)}) as site, visiting(timeout_s=3.0) as visitor:
        assert await visitor.outcome(site.url("/none")) == status


def large(status: int, way: str) -> Answer:
    """A response that names 5 GB, or sends more than the visitor takes and names nothing."""
    head = f"HTTP/1.1 {status} Any\r\nConnection: close\r\nLocation: /there\r\n"
    length = "Content-Length: 5000000000\r\n" if way == "named" else ""
    return Answer(raw=f"{head}{length}\r\n{'x' * (2 << 20)}".encode())


@pytest.mark.parametrize("way", ["named", "sent"])
async def test_a_status_counts_before_a_body_that_is_too_large(way: str) -> None:
    """A redirect leads on, a refusal is one; of other pages the body is what was asked for."""
    statuses = (200, 301, 308, 404, 429, 503)
    pages = {f"/{status}": large(status, way) for status in statuses}
    with serving(pages) as site, visiting(timeout_s=3.0) as visitor:
        for status in statuses:
            url = site.url(f"/{status}")
            if status in (200, 404):
                assert await visitor.outcome(url) == "too_large"
                continue
            response = await visitor.fetch(url)
            assert isinstance(response, Undecoded)
            assert (response.status, response.headers["Location"]) == (status, b"/there")
            assert reason_of(response.problem) == "too_large"


async def test_a_robots_txt_that_is_not_there_needs_no_body() -> None:
    """Needs no body for a robots.txt that is missing, whatever the site sends."""
    with serving({"/robots.txt": large(404, "named")}) as site, visiting(timeout_s=3.0) as visitor:
        response = await visitor.fetch(site.url("/robots.txt"), meta={ROBOTS: True})
        assert response.status == 404
        assert await visitor.outcome(site.url("/robots.txt")) == "too_large"
