"""A crawl fed record by record is one crawl."""

from __future__ import annotations

from crawlstream_chaos.witness import Witness
from crawlstream_cli.demo.web import ContentKind
from e2e.sites import Serve


async def test_a_thousand_seeds_are_one_run(serve: Serve, witness: Witness) -> None:
    """1 000 seeds of one crawlid, one a record: one start, one finish, no page twice."""
    async with serve(hosts=20, pages=1050, slow_pages=0) as served:
        name = {"appid": "e2e", "crawlid": f"thousand-{served.web.port}"}
        # A seed always enters, even after a redirect has led to it: so none leads to another.
        pages = [
            page
            for page in served.web.pages
            if page.kind not in (ContentKind.MOVED, ContentKind.MOVED_BACK)
        ]
        urls = [served.web.url(page) for page in pages[:1000]]
        witness.feed(*({"url": url, **name} for url in urls))
        ending = await witness.ended(name["crawlid"], timeout_s=60)
        truth = served.truth(maxdepth=99)
        fetched = served.fetches()
    results = witness.results(name["crawlid"])
    assert {result["run"] for result in results} == {ending["run"]}
    assert len(results) == len({result["id"] for result in results})
    assert len(witness.events(name["crawlid"], "crawl_started")) == 1
    assert len(witness.events(name["crawlid"], "crawl_finished")) == 1
    # Links to files are not followed, but seeds that are files are fetched like all others.
    allowed = truth.fetches.keys() & set(urls)
    assert len(allowed) > 950
    assert {url: fetched[url] for url in allowed} == {url: truth.fetches[url] for url in allowed}
    assert {result["url"] for result in results} >= truth.delivered.keys() & set(urls)
