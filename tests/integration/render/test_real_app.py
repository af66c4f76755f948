"""A single-page application as they are built: Vue with its router, bundled in parts by Vite."""

from __future__ import annotations

from collections.abc import Mapping
from mimetypes import guess_type
from pathlib import Path

import orjson

from crawlstream_chaos.scripted_site import Answer, CrawlerSite, Page, serving
from support.crawler.cluster import CrawlerCluster, counted
from support.crawler.spa import JSON

pytest_plugins = ["support.crawler.fixtures"]

BUILT = Path(__file__).parents[2] / "support" / "crawler" / "vue_app" / "built"
SHELVES: Mapping[str, list[int]] = {"a": [1, 2, 3], "b": [3, 4], "c": [5]}
HEADINGS = {
    "/": "Library",
    "/about": "About",
    **{f"/shelves/{shelf}": f"Shelf {shelf}" for shelf in SHELVES},
    **{f"/books/{number}": f"Book {number}" for number in range(1, 6)},
}
"""Every route that links lead to, and what a person reads there first."""


class Library(CrawlerSite):
    """Answers every path but files and data with the application, whose router does the rest."""

    def page_at(self, host: str, path: str) -> Page:
        """Return the answer at a path of a host."""
        return self.pages.get(path, self.pages["/index.html"])


def _answers() -> Mapping[str, Answer]:
    found = {"/robots.txt": Answer(b"", 404)}
    for file in BUILT.rglob("*.*"):
        kind = guess_type(file)[0] or ""
        path = f"/{file.relative_to(BUILT).as_posix()}"
        found[path] = Answer(file.read_bytes(), headers={"Content-Type": kind})
    told: dict[str, object] = {"shelves": [*SHELVES]}
    told |= {f"shelves/{shelf}": books for shelf, books in SHELVES.items()}
    for number in range(1, 6):
        told[f"books/{number}"] = {"title": f"Book {number}", "text": f"It is about {number}."}
    for name, value in told.items():
        found[f"/api/{name}.json"] = Answer(orjson.dumps(value), headers=JSON)
    return found


async def test_an_application_is_crawled_to_all_of_its_routes(cluster: CrawlerCluster) -> None:
    """Each route is one page with its own text, though all of them are the same document."""
    answers = _answers()
    assert b"<a " not in answers["/index.html"].body
    with serving(answers, kind=Library) as site, cluster.worker(CRAWLSTREAM_RENDER="true"):
        crawl = await cluster.feed(site.url("/"), maxdepth=4, render={})
        state = await cluster.end_of(crawl, timeout_s=120)
    results = cluster.results()
    assert counted(results) == {site.url(path): 1 for path in HEADINGS}, cluster.failures()
    assert state.done == len(HEADINGS)
    for result in results:
        path = "/" + result["url"].split("/", 3)[3]
        assert f">{HEADINGS[path]}</h1>" in result["body"]
        if path.startswith("/books/"):
            assert f"It is about {path[-1]}." in result["body"]
        assert result["render"]["complete"]
