"""Responses whose Content-Length is not that of a body which comes."""

from __future__ import annotations

import pytest

from crawlstream.chaos.scripted_site import Answer, serving
from support.crawler.visitor import visiting


def bodiless(status: int) -> Answer:
    """The head of a response that names 5 GB, and nothing behind it."""
    head = f"HTTP/1.1 {status} Any\r\nConnection: close\r\nLocation: /there\r\n"
    return Answer(raw=(head + "Content-Length: 5000000000\r\n\r\n").encode())


@pytest.mark.parametrize("status", [200, 301, 404])
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
