"""Signed requests of a browser: the document and all that a page loads, each for its own host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from crawlstream.signing.keys import new_key
from crawlstream_chaos.laws.signatures import Verifier
from crawlstream_chaos.scripted_site import Answer, Page, serving
from support.crawler.rendering import rendering
from support.crawler.spa import html

AGENT = "https://bot.example"
CORS = {"Access-Control-Allow-Origin": "*", "Content-Type": "application/json"}


async def test_all_requests_of_a_page_are_signed(tmp_path: Path) -> None:
    """Scripts, styles, frames and fetches, also where one is redirected; none needs a preflight."""
    key = new_key(tmp_path / "key.pem")
    settings: dict[str, Any] = {
        "CRAWLSTREAM_SIGNING_KEYS": str(tmp_path / "key.pem"),
        "CRAWLSTREAM_SIGNATURE_AGENT": AGENT,
        "CRAWLSTREAM_RENDER_TYPES": "document,script,stylesheet,fetch",
    }
    pages: dict[str, Page] = {
        "/a.js": Answer(b"1", headers={"Content-Type": "text/javascript"}),
        "/a.css": Answer(b"p {}", headers={"Content-Type": "text/css"}),
        "/frame": html("framed"),
        "/data": Answer(b"{}", headers=CORS),
        "/moved": Answer(status=302, headers={**CORS, "Location": "/data"}),
    }
    with serving(pages) as site:
        other = site.url("/data", host="127.0.0.2")
        site.pages["/"] = html(
            '<script src="/a.js"></script><link rel=stylesheet href="/a.css">'
            f'<iframe src="/frame"></iframe><script>(async () => {{ await fetch("/moved");'
            f'await fetch("{other}", {{mode: "cors"}}); document.title = "over"; }})();</script>'
        )
        async with rendering(**settings) as bench:
            bench.rule(render=50)
            came = await bench.render(site.url("/"))
            assert "over" in came.text
            assert bench.latest
            assert bench.latest.signed == key.keyid
        verifier = Verifier({key.keyid: key.x})
        for visit in site.visits:
            verifier.verify(visit.headers, authority=visit.headers["host"], now=visit.at)
    assert sorted(site.paths()) == ["/", "/a.css", "/a.js", "/data", "/data", "/frame", "/moved"]
    assert {visit.method for visit in site.visits} == {"GET"}
