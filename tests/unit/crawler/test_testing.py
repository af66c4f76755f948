"""The kit for tests of spiders: its reports are what a worker would do."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Spider
from scrapy.exceptions import DropItem
from scrapy.http import Response

from crawling import ClusterSpider, CrawlResult, Outlinks, links_of
from crawling.spiders.link import LinkSpider
from crawling.testing import Outlink, crawl_page, spider_from
from crawlstream.errors import ConfigError, InvalidRequest
from support.documented import write_example_project

URL = "http://a.example/list"


class Tried(ClusterSpider):
    """A spider that does what its page is called."""

    name = "tried"

    def parse(self, response: Response, **_kwargs: Any) -> Iterator[Any]:
        """An item of many kinds."""
        yield self.result(response)
        match response.url.rsplit("/", 1)[1]:
            case "item":
                yield {"of": response.url}
            case "raises":
                raise ValueError("no price")
            case "links":
                links, refused = links_of(response)
                yield Outlinks([url for url, _text in links], refused)
            case _:
                pass

    async def parse_later(self, response: Response) -> Any:
        """A callback that is a coroutine."""
        return [self.result(response, attrs=dict(response.meta["told"]))]


class Shelf:
    """A pipeline of a user's."""

    def process_item(self, item: Any) -> Any:
        """Changes its items, and keeps some results back."""
        if isinstance(item, CrawlResult):
            if item.depth:
                raise DropItem("not for Kafka")
            return item
        return {**item, "shelved": True}


def test_the_documented_tests_pass_as_written(tmp_path: Path) -> None:
    """Runs the documented tests in a project, without any server."""
    write_example_project(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path), "KAFKA_HOSTS": "127.0.0.1:1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "3 passed" in ran.stdout


def test_links_are_kept_or_counted_as_in_a_worker() -> None:
    """Filters of the request, depth and duplicates; the record has the links as well."""
    body = "<a href=/1>one</a><a href=/2.pdf>x</a><a href=http://b.example/>y</a>"
    request = {"maxdepth": 1, "allowed_domains": ["a.example"]}
    page = crawl_page(LinkSpider, URL, body, request=request)
    (link,) = page.outlinks
    assert (link.url, link.depth, link.parent_url) == ("http://a.example/1", 1, URL)
    assert (link.seed_url, link.priority) == (URL, -9)
    assert page.filtered == {"extension": 1, "domain": 1}
    assert page.results[0]["links"] == [{"url": "http://a.example/1", "text": "one"}]
    last = crawl_page(LinkSpider, link, body, request=request)
    assert (last.outcome, last.outlinks, last.results[0]["depth"]) == ("done", [], 1)
    assert last.results[0]["seed_url"] == URL
    own = crawl_page(Tried, "http://a.example/links", body, request=request)
    assert own.filtered == page.filtered


def test_an_outlink_of_the_tests_own_names_callback_and_meta() -> None:
    """Keeps callback and meta of an outlink as the frontier would; an unknown callback fails."""
    link = Outlink(URL, callback="parse_later", meta={"told": {"n": 1}})
    assert crawl_page(Tried, link).results[0]["attrs"] == {"n": 1}
    failed = crawl_page(Tried, Outlink(URL, callback="parse_never"))
    assert (failed.outcome, failed.results) == ("failed", [])
    assert failed.failure is not None
    assert failed.failure["reason"] == "invalid_request"


def test_what_a_callback_raises_is_told() -> None:
    """Reports an exception of a callback as clients receive it, after its earlier output."""
    page = crawl_page(Tried, "http://a.example/raises", request={"uuid": "u1"})
    assert page.outcome == "failed"
    assert page.failure is not None
    assert page.failure["detail"] == "ValueError: no price"
    assert (page.failure["reason"], page.failure["uuid"]) == ("spider_error", "u1")
    assert len(page.results) == 1


def test_items_go_through_the_pipelines_of_the_settings() -> None:
    """Passes items through the pipelines; without any, an item fails the page as in a worker."""
    url = "http://a.example/item"
    alone = crawl_page(Tried, url)
    assert alone.failure is not None
    assert alone.failure["reason"] == "item_error"
    settings = {"ITEM_PIPELINES": {Shelf: 300}}
    page = crawl_page(Tried, url, settings=settings)
    assert (page.outcome, page.items) == ("done", [{"of": url, "shelved": True}])
    assert len(page.results) == 1
    below = crawl_page(Tried, Outlink(url), settings=settings)
    assert (below.outcome, below.results) == ("done", [])


@pytest.mark.parametrize(
    ("status", "headers", "outcome", "next_url"),
    [
        (404, {}, "done", None),
        (503, {}, "retried", None),
        (301, {"Location": "/there"}, "redirected", "http://a.example/there"),
        (301, {"Location": URL}, "failed", None),
    ],
)
def test_a_response_is_judged_before_the_spider_sees_it(
    status: int, headers: dict[str, str], outcome: str, next_url: str | None
) -> None:
    """Retries, redirects and loops end the page as in a worker."""
    page = crawl_page(Tried, URL, status=status, headers=headers)
    assert page.outcome == outcome
    assert bool(page.results) == (outcome == "done")
    assert [link.url for link in page.outlinks] == ([next_url] if next_url else [])
    if page.outlinks:
        arrived = crawl_page(Tried, page.outlinks[0])
        assert arrived.results[0]["redirect_urls"] == [URL]


def test_a_body_is_text_bytes_or_a_file(tmp_path: Path) -> None:
    """Its charset and coding are what headers say, or what a worker finds in it."""
    assert crawl_page(Tried, URL, "Größe").results[0]["body"] == "Größe"
    html = "<meta charset=windows-1251>цена"
    (path := tmp_path / "page.html").write_bytes(html.encode("cp1251"))
    (record,) = crawl_page(Tried, URL, path).results
    assert (record["body"], record["encoding"]) == (html, "cp1251")
    headers = {"Content-Type": "text/plain", "Content-Encoding": "gzip"}
    packed = crawl_page(Tried, URL, gzip.compress(b"plain"), headers=headers)
    assert packed.results[0]["body"] == "plain"
    image = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
    (binary,) = crawl_page(Tried, URL, image, headers={"Content-Type": "image/png"}).results
    assert binary["body_encoding"] == "base64"


def test_a_request_that_would_be_refused_is_refused() -> None:
    """Refuses a request with the problems that its client would get."""
    with pytest.raises(InvalidRequest, match=r"\$.maxdepth: must be"):
        crawl_page(Tried, URL, request={"maxdepth": "deep"})
    with pytest.raises(InvalidRequest, match="file"):
        crawl_page(Tried, "file:///etc/passwd")


def test_a_spider_that_is_none_of_the_cluster_is_refused() -> None:
    """Refuses another spider by the sentence of its crawler."""

    class Plain(Spider):
        name = "plain"

    with pytest.raises(ConfigError, match="Plain is not a cluster spider: derive it from"):
        crawl_page(Plain, URL)


async def test_it_works_where_a_loop_runs_and_makes_spiders() -> None:
    """Works in coroutines too; a spider has its settings and its crawler."""
    assert crawl_page(Tried, URL).outcome == "done"
    spider = spider_from(Tried, {"USER_AGENT": "mine/1"}, told="so")
    assert spider.settings["USER_AGENT"] == "mine/1"
    assert getattr(spider, "told", None) == "so"
    assert spider.settings["RETRY_ENABLED"] is False
