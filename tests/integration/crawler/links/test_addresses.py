"""A site of odd URLs: its log, its robots.txt and the results of a crawl speak of the same ones."""

from __future__ import annotations

from html import escape

from crawlstream.chaos.scripted_site import Answer, CrawlerSite, page
from support.crawler.cluster import CrawlerCluster

pytest_plugins = ["support.crawler.fixtures"]

LINKS = {
    "?wsdl": "/?wsdl",
    "index.php?/blog/view/12": "/index.php?/blog/view/12",
    "?p=a.git;a=commit;h=1f": "/?p=a.git;a=commit;h=1f",
    "x?b=2&a=1": "/x?b=2&a=1",
    "?q=%GG": "/?q=%GG",
    "?sig=ab/cd+ef==": "/?sig=ab/cd+ef==",
    "a|b[c]?d|e": "/a|b[c]?d|e",
    "%7Eu/ü": "/%7Eu/%C3%BC",
    r"\back\slash": "/back/slash",
    "two//slashes": "/two//slashes",
    "away": "/away",
    "/\\127.0.0.1:{port}/host": "/host",
}
"""What is written on a page, and what the site is asked for."""
AGAIN = ["x?a=1&b=2", "%7eu/%c3%bc", "a%7Cb%5Bc%5D?d%7Ce", "?wsdl="]
"""Other spellings of the same pages."""
FORBIDDEN = ["/search?sort=1&q=a", "/doc?print", "/index.php?/admin/x"]
ROBOTS = b"User-agent: *\nDisallow: /search?sort=\nDisallow: /*?print$\nDisallow: /index.php?/admin"
TEL = Answer(status=302, headers={"Location": "tel:5551"})


async def test_an_odd_url_is_asked_for_as_it_is_written(
    cluster: CrawlerCluster, site: CrawlerSite
) -> None:
    """And judged by robots.txt, and told of; each page once, however it is spelled.

    A redirect that leads out of the web is the result.
    """
    hrefs = [each.replace("{port}", str(site.port)) for each in (*LINKS, *AGAIN, *FORBIDDEN)]
    links = "".join(f'<a href="{escape(href)}">x</a>' for href in hrefs)
    site.pages |= {path: page() for path in (*LINKS.values(), *FORBIDDEN)}
    site.pages |= {"/robots.txt": Answer(ROBOTS), "/away": TEL, "/": page(text=links)}
    with cluster.worker(ROBOTSTXT_OBEY="true"):
        crawl = await cluster.feed(site.url("/"), maxdepth=1)
        state = await cluster.end_of(crawl, timeout_s=60)
    assert sorted(site.paths()) == sorted(["/", *LINKS.values()])
    asked = {site.url(path) for path in ("/", *LINKS.values())}
    assert {record["url"] for record in cluster.results()} == asked
    assert cluster.failures() == dict.fromkeys(map(site.url, FORBIDDEN), "robots")
    assert state.filtered_by_reason == {"duplicate": len(AGAIN)}
