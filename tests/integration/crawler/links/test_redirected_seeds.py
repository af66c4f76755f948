"""A seed that redirects brings its page each time that it is fed, as one that does not."""

from __future__ import annotations

from collections import Counter

from crawlstream.model.crawl import CrawlKey
from crawlstream_chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

MONTH_S = 30 * 86_400


def moved(to: str) -> Answer:
    """A permanent redirect."""
    return Answer(status=301, headers={"Location": to})


def listing(*paths: str) -> Answer:
    """A sitemap."""
    urls = "".join(f"<url><loc>{path}</loc></url>" for path in paths)
    return Answer(f"<urlset>{urls}</urlset>".encode(), headers={"Content-Type": "application/xml"})


async def run_to_its_end(cluster: CrawlerCluster, url: str, **more: object) -> CrawlKey:
    """Feed a seed and wait for the end of the run."""
    crawl = await cluster.ask({"url": url, "maxdepth": 1, "remember": MONTH_S, **more})
    await cluster.end_of(crawl, timeout_s=60)
    await cluster.finish(crawl)
    return crawl


async def test_a_seed_behind_redirects_brings_its_page_in_each_run(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Fetches the target in each run of a crawl that remembers its pages, and once a run."""
    refresh = Answer(b'<meta http-equiv=refresh content="0; url=/home">')
    site.pages |= {"/": moved("/en"), "/en": refresh, "/old": page()}
    with cluster.worker():
        for run in range(3):
            # The page links to all addresses of its own chain, too.
            site.pages |= {"/home": page(f"/new{run}", "/old", "/home", "/en", "/")}
            site.pages[f"/new{run}"] = page()
            crawl = await run_to_its_end(cluster, site.url("/"))
    each_run, once = ("/", "/en", "/home"), ("/old", "/new0", "/new1", "/new2")
    assert Counter(site.paths()) == {**dict.fromkeys(each_run, 3), **dict.fromkeys(once, 1)}
    home = [result for result in cluster.results() if result["url"].endswith("/home")]
    assert len({result["id"] for result in home}) == 3
    assert {tuple(result["redirect_urls"]) for result in home} == {(site.url("/"), site.url("/en"))}
    state = await cluster.state_of(crawl)
    assert (state.done, state.redirected) == (2, 2)


async def test_a_second_feed_of_a_running_crawl_brings_the_page_again(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Fetches the target though a link of the same crawl has led to it before."""
    site.pages |= {"/": moved("/home"), "/home": page(), "/first": page("/home")}
    with cluster.worker():
        for path in ("/first", "/", "/"):
            crawl = await cluster.ask({"url": site.url(path), "maxdepth": 1})
            await cluster.end_of(crawl, timeout_s=60)
    assert Counter(site.paths()) == {"/first": 1, "/home": 3, "/": 2}


async def test_a_sitemap_that_has_moved_is_read_in_each_run(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """Reads the sitemap behind the redirect again, and fetches only what is new in it."""
    site.pages |= {"/sitemap.xml": moved("/real.xml")} | {f"/p{n}": page() for n in range(3)}
    with cluster.worker("sitemap"), cluster.worker("link"):
        for run in range(1, 4):
            site.pages["/real.xml"] = listing(*(site.url(f"/p{n}") for n in range(run)))
            await run_to_its_end(cluster, site.url("/sitemap.xml"), spiderid="sitemap", maxdepth=2)
    assert Counter(site.paths()) == {
        "/sitemap.xml": 3, "/real.xml": 3, "/p0": 1, "/p1": 1, "/p2": 1,
    }  # fmt: skip
