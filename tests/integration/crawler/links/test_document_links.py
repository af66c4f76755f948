"""Links of PDFs and office documents: followed like those of pages, where the operator wants it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.ways import both_ways
from support.hostile.documents import bomb, encrypted, pdf
from support.hostile.office import docx

pytest_plugins = ["support.crawler.fixtures"]

ON = {"CRAWLSTREAM_DOCUMENTS": "links"}
PDF = {"Content-Type": "application/pdf"}
WORD = {"Content-Type": "application/vnd.openxmlformats-officedocument.wordprocessingml.document"}


def site_with(site: CrawlerSite) -> None:
    """Serve a page with documents, whose links lead to pages, to each other and elsewhere."""
    there = site.url("")
    elsewhere = "http://elsewhere.example/"
    paper = pdf(f"see {there}/of-text", links=["/of-pdf", "/b.docx", elsewhere, "/of-pdf"])
    site.pages |= {
        "/": page("/a.pdf", "/locked.pdf", "/broken.docx"),
        "/a.pdf": Answer(paper, headers=PDF),
        "/b.docx": Answer(docx(f"{there}/of-docx", elsewhere, "/a.pdf"), headers=WORD),
        "/locked.pdf": Answer(encrypted(), headers=PDF),
        "/broken.docx": Answer(docx("/never")[:-30], headers=WORD),
        **dict.fromkeys(("/of-text", "/of-pdf", "/of-docx"), page()),
    }


@both_ways
@pytest.mark.parametrize("env", [ON, {}])
async def test_links_of_documents_are_judged_like_all_others(
    cluster: CrawlerCluster, site: CrawlerSite, env: Mapping[str, str]
) -> None:
    """Follows them down to the last level within the scope; counts unreadable documents."""
    site_with(site)
    scope = {"allowed_domains": ["127.0.0.1"], "deny_extensions": ["zip"]}
    request = {"url": site.url("/"), "maxdepth": 3, **scope}
    with cluster.worker(**env):
        crawl = await cluster.ask(request)
        state = await cluster.end_of(crawl, timeout_s=60)
    own = {"/", "/a.pdf", "/locked.pdf", "/broken.docx"}
    found = {"/of-text", "/of-pdf", "/b.docx", "/of-docx"}
    results = {one["url"]: one for one in cluster.results()}
    assert {*results} == {*map(site.url, own | found if env else own)}
    assert set(counted([*cluster.results()]).values()) == {1}
    assert state.done == state.admitted == len(results)
    assert dict(state.filtered_by_reason) == (
        {"domain": 2, "document_unread": 2, "duplicate": state.filtered_by_reason["duplicate"]}
        if env
        else {}
    )
    if env:
        depths = {url.removeprefix(site.url("")): one["depth"] for url, one in results.items()}
        assert (depths["/of-pdf"], depths["/b.docx"], depths["/of-docx"]) == (2, 2, 3)
        assert [link["url"] for link in results[site.url("/a.pdf")]["links"]] == [
            site.url("/of-pdf"),
            site.url("/b.docx"),
            site.url("/of-text"),
        ]


async def test_a_document_that_means_to_cost_ends_its_reader_only(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Counts a document that needs too much memory, and reads the next one by a new process."""
    site.pages |= {
        "/bomb.pdf": Answer(bomb(4_000_000), headers=PDF),
        "/good.pdf": Answer(pdf("a", links=["/found"]), headers=PDF),
        "/found": page(),
    }
    with cluster.worker(**ON) as worker:
        crawl = await cluster.feed(site.url("/bomb.pdf"), maxdepth=1)
        assert dict((await cluster.end_of(crawl, timeout_s=60)).filtered_by_reason) == {
            "document_unread": 1
        }
        good = await cluster.feed(site.url("/good.pdf"), crawlid="good", maxdepth=1)
        assert (await cluster.end_of(good, timeout_s=60)).done == 2
        last = await cluster.feed(site.url("/good.pdf"), crawlid="last", maxdepth=0)
        assert (await cluster.end_of(last, timeout_s=60)).done == 1
        assert worker.is_running()
