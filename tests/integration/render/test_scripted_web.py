"""The web that browsers crawl in chaos, in a real one, and the law that the auditor has for it."""

from __future__ import annotations

from pathlib import Path

from crawlstream_chaos.facts.facts import Facts
from crawlstream_chaos.laws.auditor import further_requests_bounded
from crawlstream_cli.demo.access_log import AccessLog, read_visits
from crawlstream_cli.demo.http_reply import render
from crawlstream_cli.demo.site import Site
from crawlstream_cli.demo.web import Web
from crawlstream_cli.local.ports import free_block
from support.crawler.rendering import rendering

BOUND = 2


async def test_its_scripts_make_the_links_and_its_log_shows_the_bound(tmp_path: Path) -> None:
    """A page has the links that it would have without scripts, and brings as much as it may."""
    plain = Web(1, hosts=2, pages=20)
    web = Web(free_block(1), hosts=2, pages=20, further=BOUND + 2)
    log = AccessLog(tmp_path / "visits.jsonl")
    site = Site(web, log)
    await site.start()
    try:
        async with rendering() as bench:
            bench.rule(render=BOUND)
            for _ in range(2):
                came = await bench.render(web.seed_url)
            assert (bench.told["requests"], bench.told["blocked"]) == (BOUND, 2)
        log.flush()
    finally:
        await site.stop()
    wanted = render(plain, plain.pages[0]).body.count(b"<a ")
    assert came.body.count(b"<a ") == wanted > 2
    visits = read_visits(tmp_path / "visits.jsonl")
    assert [visit.document for visit in visits] == [None, "/", "/"] * 2
    assert not [*further_requests_bounded(Facts(fed=(), records=(), visits=visits, render=BOUND))]
    assert [*further_requests_bounded(Facts(fed=(), records=(), visits=visits, render=BOUND - 1))]
