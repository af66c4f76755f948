"""Pages requested only if they have changed: the requests at the site, and their outcomes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

from crawlstream_chaos.scripted_site import HTML, Answer, Page, SeenRequest, page
from crawlstream_chaos.scripted_site import serving as serving_pages
from support.crawler.cluster import CrawlerCluster
from support.crawler.ways import both_ways

pytest_plugins = ["support.crawler.fixtures"]

DATE = "Sun, 06 Nov 1994 08:49:37 GMT"
CODED = {**HTML, "ETag": '"v1-gzip"', "Content-Encoding": "gzip"}
NAMES = ("if-none-match", "if-modified-since")


def known(visit: SeenRequest) -> Answer:
    """As Apache does it: the ETag has the coding in it, and is compared without."""
    if '"v1"' in visit.headers.get("if-none-match", "").split(", "):
        return Answer(status=304, headers={"ETag": '"v1-gzip"'})
    return Answer(gzip.compress(page("/a", "/b").body), headers=CODED)


class Busy:
    """A page that is there at the second attempt."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self, visit: SeenRequest) -> Answer:
        """Answers for one visitor."""
        self.asked += 1
        if self.asked == 1:
            return Answer(status=500)
        is_known = visit.headers.get("if-modified-since") == DATE
        return Answer(status=304, headers={}) if is_known else page()


@both_ways
async def test_only_the_seed_itself_is_asked_for_if_it_has_changed(cluster: CrawlerCluster) -> None:
    """Its retries are, its links and redirects are not; a 304 is a result."""
    moved = Answer(status=301, headers={"Location": "/moved"})
    pages: dict[str, Page] = {
        "/known": known,
        "/new": known,
        "/old": moved,
        "/moved": page("/c"),
        "/busy": Busy(),
    }
    with serving_pages(pages) as site:
        with cluster.worker(RETRY_TIMES="1"):
            crawl = await cluster.ask(
                {"url": site.url("/known"), "etag": '"v1-gzip"', "maxdepth": 1},
                {"url": site.url("/new"), "etag": '"v0"', "last_modified": DATE, "maxdepth": 1},
                {"url": site.url("/old"), "etag": '"v1"', "maxdepth": 1},
                {"url": site.url("/busy"), "last_modified": DATE},
            )
            await cluster.end_of(crawl, timeout_s=30)
        asked = sorted(
            (visit.path, *(visit.headers.get(name, "") for name in NAMES)) for visit in site.visits
        )
    assert asked == [
        ("/a", "", ""),
        ("/b", "", ""),
        ("/busy", "", DATE),
        ("/busy", "", DATE),
        ("/c", "", ""),
        ("/known", '"v1-gzip", "v1"', ""),
        ("/moved", "", ""),
        ("/new", '"v0"', ""),
        ("/old", '"v1"', ""),
    ]
    results = {result["url"]: result for result in cluster.results()}
    unchanged = results[site.url("/known")]
    assert (unchanged["status_code"], unchanged["body"], unchanged["links"]) == (304, "", [])
    assert unchanged["response_headers"]["Etag"] == ['"v1-gzip"']
    assert results[site.url("/busy")]["status_code"] == 304
    assert len(results[site.url("/new")]["links"]) == 2


SPIDER = """
from crawling import ClusterSpider

class Copying(ClusterSpider):
    name = "copying"

    def parse(self, response):
        yield self.result(response)
        if response.url.endswith("/seed"):
            yield response.request.replace(url=response.urljoin("/copied"))
            yield response.request.replace(
                url=response.urljoin("/own"), headers={"If-None-Match": "mine"}
            )
"""


async def test_a_request_made_from_the_seeds_has_its_conditions_no_more(
    cluster: CrawlerCluster, tmp_path: Path
) -> None:
    """Headers that a spider copies are left out; its own are sent."""
    (tmp_path / "copying.py").write_text(SPIDER)
    path = os.pathsep.join(filter(None, (str(tmp_path), cluster.env.get("PYTHONPATH"))))
    env = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": "copying"}
    with serving_pages({"/seed": page(), "/copied": page(), "/own": page()}) as site:
        with cluster.worker("copying", **env):
            seed = {"url": site.url("/seed"), "etag": '"v"', "spiderid": "copying"}
            crawl = await cluster.ask({**seed, "maxdepth": 1})
            await cluster.end_of(crawl, timeout_s=30)
        asked = {visit.path: visit.headers.get("if-none-match") for visit in site.visits}
    assert asked == {"/seed": '"v"', "/copied": None, "/own": "mine"}
