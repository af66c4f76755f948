"""Crawls with automatic rendering: a crawler with a browser, one without, and a mixed site."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Mapping, Sequence

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page, serving
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.rendering import rendering
from support.crawler.spa import html, script

pytest_plugins = ["support.crawler.fixtures"]

SHELLS, ARTICLES = 13, 24
_TEXT = "A long paragraph with all that there is to read about this. " * 8
_APP = (
    "const n = +location.pathname.split('/')[2];"
    f"document.querySelector('#root').innerHTML = `<h1>App ${{n}}</h1><p>{_TEXT}</p>`"
    f" + [4 * n + 1, 4 * n + 2, 4 * n + 3, 4 * n + 4].filter(i => i < {SHELLS})"
    "   .map(i => `<a href='/app/${i}'>page</a>`).join(' ');"
)


def _mixed() -> Mapping[str, Page]:
    """Return an application below /app, whose documents are empty, and a blog that needs none."""
    app = [f"/app/{n}" for n in range(SHELLS)]
    blog = [f"/blog/{n}" for n in range(ARTICLES)]
    links = "".join(f'<p><a href="{path}">{path}</a></p>' for path in (app[0], *blog))
    shell = "<html><body><div id=root></div><script src=/app.js></script></body></html>"
    article = f"<html><body><h1>Blog</h1><p>{_TEXT}</p><script>var a = 1</script></body></html>"
    pages: dict[str, Page] = {"/robots.txt": Answer(b"", 404), "/app.js": script(_APP)}
    pages["/"] = html(f"<html><body>{links}<p>{_TEXT}</p></body></html>")
    return pages | dict.fromkeys(app, html(shell)) | dict.fromkeys(blog, html(article))


def _documents(site: CrawlerSite) -> Counter[str]:
    paths = (visit.path for visit in site.visits)
    return Counter(path for path in paths if path not in {"/app.js", "/robots.txt"})


async def test_only_pages_that_need_a_browser_get_one(cluster: CrawlerCluster) -> None:
    """Each page is one page of the ledger and one result, and mostly one document.

    The results of the application are what a person sees; those of most articles what was sent.
    """
    with (
        serving(_mixed()) as site,
        cluster.worker(CRAWLSTREAM_RENDER="true"),
        cluster.worker(),
    ):
        crawl = await cluster.ask({"url": site.url("/"), "maxdepth": 9, "render": "auto"})
        state = await cluster.end_of(crawl, timeout_s=120)
    results = {result["url"]: result for result in cluster.results()}
    assert (state.admitted, state.done, state.redirected) == (38, 38, 0), cluster.failures()
    assert counted(cluster.results()) == dict.fromkeys(results, 1)
    rendered = {url: result["render"] for url, result in results.items() if "render" in result}
    for n in range(SHELLS):
        url = site.url(f"/app/{n}")
        assert f"App {n}</h1>" in results[url]["body"]
        assert rendered[url]["needed"]
    whys = Counter(told["why"] for told in rendered.values())
    articles = [told for url, told in rendered.items() if "/blog/" in url]
    assert all((told["why"], told["needed"]) == ("trial", False) for told in articles)
    assert len(articles) <= 16
    assert whys["family"] >= SHELLS // 2
    assert rendered[site.url("/")]["why"] == "trial"
    documents = _documents(site)
    assert documents.keys() == {url.removeprefix(site.url("")) for url in results}
    twice = {path for path, times in documents.items() if times > 1}
    assert documents.total() - len(documents) == len(twice) <= 4
    assert all(path.startswith("/app/") for path in twice)


async def test_a_document_is_compared_as_it_was_sent_and_shown_as_usual() -> None:
    """With its charset, compression, cookies and policies; one that is too large fails."""
    text = "<meta charset=utf-8><p id=p>Straße</p><script>p.append(document.cookie)</script>"
    policy = {"Content-Security-Policy": "script-src 'none'"}
    coded = {"Content-Type": "text/html; charset=windows-1252", "Content-Encoding": "gzip"}
    body = "<p id=p>Straße</p><script>p.append('!')</script>".encode("cp1252")
    pages = {
        "/cookie": html(text, **{"Set-Cookie": "a=b"}),
        "/policy": html(text, **policy),
        "/coded": Answer(gzip.compress(body), headers=coded),
        "/large": html("x" * 300_000),
    }
    wishes: Sequence[Mapping[str, object]] = ({}, {"auto": True})
    with serving(pages) as site:
        async with rendering(download_max_bytes=200_000) as bench:
            for path in ("/cookie", "/policy", "/coded"):
                usual, other = [await bench.render(site.url(path), render=wish) for wish in wishes]
                assert (other.body, other.headers) == (usual.body, usual.headers)
                sent = bench.latest.sent_document if bench.latest else None
                assert sent is not None
                assert "Straße" in sent.text
                assert sent.body == (body if path == "/coded" else text.encode())
                assert b"Stra\xc3\x9fe" in other.body
            reasons = [await bench.reason(site.url("/large"), render=wish) for wish in wishes]
    assert reasons == ["too_large", "too_large"]
