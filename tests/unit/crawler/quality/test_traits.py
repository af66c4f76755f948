"""Text signatures and canonical URLs in results: where a crawl watches."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from crawling.spiders.link import LinkSpider
from crawling.spiders.sitemap import SitemapSpider
from crawling.testing import crawl_page
from crawlstream.model.web.guard_mode import GuardMode, guard_mode

URL = "http://a.example/list?page=2"
BODY = """<html><head><title>List</title><link rel=canonical href=/list>
<script>var page = 2;</script><style>p { color: red }</style></head>
<body><p>one</p><p>two</p><a href=/2>page 2</a><noscript>three</noscript></body></html>"""


def _result(body: str = BODY, url: str = URL, **options: Any) -> Mapping[str, Any]:
    asked = {"maxdepth": 1, "guard": "watch", **options.pop("request", {})}
    spider = options.pop("spider", LinkSpider)
    (result,) = crawl_page(spider, url, body, request=asked, **options).results
    return result


@pytest.mark.parametrize("spider", [LinkSpider, SitemapSpider])
@pytest.mark.parametrize("maxdepth", [0, 1])
def test_a_watched_page_has_signature_and_canonical(spider: type, maxdepth: int) -> None:
    """They are the same whether its links are followed or not."""
    result = _result(spider=spider, request={"maxdepth": maxdepth})
    assert result["canonical"] == "http://a.example/list"
    assert result["text_signature"] == _result()["text_signature"]
    assert re.fullmatch("t1:[0-9a-f]{16}", result["text_signature"])


@pytest.mark.parametrize("asked", [{"guard": "off"}, {"guard": None}])
def test_a_page_that_is_not_watched_has_neither(asked: dict[str, Any]) -> None:
    """Adds nothing to the result of a page that is not watched."""
    assert not {"canonical", "text_signature"} & _result(request=asked).keys()


def test_what_does_not_count() -> None:
    """Ignores scripts, styles, comments, order, white space and numbers of the own address."""
    markup = """<body><!-- four --><script>other()</script><p>two <p> one<a href=/9>page
    3</a><i>three</i><title>List</title><!-- <p>five --><style>p { color: blue }</style>"""
    other = _result(markup, "http://a.example/list?page=3")
    assert other["text_signature"] == _result()["text_signature"]
    assert "canonical" not in other
    assert _result(BODY.replace("two", "too"))["text_signature"] != other["text_signature"]


def test_pages_without_text_have_no_signature() -> None:
    """A page that only scripts fill is equal to no other; texts of other types have none, too."""
    assert "text_signature" not in _result("<script>fill()</script><p> <p>")
    plain = _result("one", headers={"Content-Type": "text/plain", "Link": "</x>; rel=canonical"})
    assert "text_signature" not in plain
    assert plain["canonical"] == "http://a.example/x"


@pytest.mark.parametrize(
    ("head", "canonical"),
    [
        ("<link rel=canonical href=/x><link rel=canonical href=/y>", "/x"),
        ("<link rel='next CANONICAL' href=/x>", "/x"),
        ("<link rel=canonical><link rel=canonical href=/y>", "/y"),
        ("<link rel=next href=/x>", None),
        ("<link rel=canonical href=/list?page=2>", None),
        ("<link rel=canonical href='#top'>", None),
        ("<base href=/b/><link rel=canonical href=x>", "/b/x"),
        ("<body><link rel=canonical href=/x>", None),
        ("<!-- <link rel=canonical href=/x> -->", None),
        ("<script>'<link rel=canonical href=/x>'</script>", None),
        (f"<link rel=canonical href=/{'x' * 2083}>", None),
    ],
)
def test_a_canonical_link_stands_in_the_head(head: str, canonical: str | None) -> None:
    """The first with a reference is decisive; one in the body may be anybody's."""
    found = _result(f"<html><head>{head}</head><p>x").get("canonical")
    assert found == (canonical and f"http://a.example{canonical}")


def test_the_operator_limits_the_mode() -> None:
    """A crawl has its own mode, or the default, but never more than the most."""
    off, watch, on = GuardMode
    assert guard_mode(None, off, watch) == guard_mode("off", watch, watch) == off
    assert guard_mode(None, watch, watch) == guard_mode("watch", off, watch) == watch
    assert guard_mode("later", off, watch) == watch
    assert guard_mode("later", watch, off) == guard_mode("watch", watch, off) == off
    assert guard_mode(None, watch, off) == off
    assert guard_mode("on", off, watch) == guard_mode(None, on, watch) == watch
    assert guard_mode("on", off, on) == guard_mode("later", off, on) == on
