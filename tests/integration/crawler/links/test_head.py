"""HEAD: what is asked is how large something is, and no body comes."""

from __future__ import annotations

from crawlstream.chaos.scripted_site import Answer, serving
from support.crawler.visitor import visiting

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5000000000\r\n\r\n"


async def test_head_of_something_large_is_a_result() -> None:
    """Its Content-Length is what the client wants to know; a GET of the same is too large."""
    answers = {"/big.iso": Answer(raw=HEAD)}
    with serving(answers) as site, visiting(timeout_s=3.0) as visitor:
        response = await visitor.fetch(site.url("/big.iso"), method="HEAD")
        assert (response.status, response.headers["Content-Length"]) == (200, b"5000000000")
        assert await visitor.outcome(site.url("/big.iso")) == "too_large"
        assert await visitor.outcome(site.url("/big.iso"), method="HEAD") == 200
