"""Links that a page does not vouch for: followed or left out, and counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request
from scrapy.http import HtmlResponse

from crawling.links.extract import links_of
from crawling.page.directives import directives_of, obeys
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.spiders.base import ClusterSpider
from crawling.spiders.link import LinkSpider
from crawling.spiders.sitemap import SitemapSpider
from crawling.testing import crawl_page
from crawlstream.model.crawl import Profile
from support.pages import page_at

URL = "http://a.example/page"
MARKUP = """<title>x</title><a href=/a rel="external NoFollow">a</a><a href=/b>b</a>
<a href=/c rel=nofollow>c</a><a href=/c>c</a><a href=/d>d</a><a href=/d rel=nofollow>d</a>
<a href=/e rel=ugc>e</a><map><area href=/f rel=nofollow></map><a href=/a rel=nofollow>again</a>"""


def _response(
    policy: str = "record", wish: str | None = None, markup: str = MARKUP, **headers: str
) -> HtmlResponse:
    profile = Profile(directives=wish, maxdepth=1)
    page = page_at(URL, profile=profile)
    found = HtmlResponse(
        URL,
        body=markup.encode(),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
        request=Request(URL, meta={PAGE: page}),
    )
    page.directives = directives_of(found, "bot")
    page.obeys_directives = obeys(policy, wish)
    return found


def _places(response: HtmlResponse) -> tuple[list[str], dict[str, int]]:
    links, refused = links_of(response)
    return [url.removeprefix("http://a.example/") for url, _ in links], dict(refused)


class OwnSpider(ClusterSpider):
    """Sends a request of its own, whatever the page says."""

    name = "own"

    def parse(self, response: Any, **_kwargs: Any) -> Iterator[Any]:
        """Yield one request and one result."""
        yield Request(response.urljoin("/own"))
        yield self.result(response)


ALL = ["a", "b", "c", "d", "e", "f"]
VOUCHED = ["b", "c", "d", "e"]


@pytest.mark.parametrize(
    ("policy", "wish", "is_obeyed"),
    [
        ("record", None, False),
        ("record", "obey", True),
        ("obey", None, True),
        ("obey", "record", False),
        ("always", "record", True),
        ("always", None, True),
    ],
)
def test_a_link_is_left_out_if_no_anchor_vouches_for_it(
    policy: str, wish: str | None, *, is_obeyed: bool
) -> None:
    """The operator's policy and the crawl's wish decide whether directives are obeyed."""
    expected: Any = (VOUCHED, {"nofollow": 2}) if is_obeyed else (ALL, {})
    assert _places(_response(policy, wish)) == expected


def test_a_page_without_nofollow_is_followed_whatever_else_it_says() -> None:
    """``noindex`` is about the page, and ``nofollow`` of others' crawlers about them."""
    for text in ("noindex", "otherbot: nofollow", "noarchive, nosnippet"):
        assert _places(_response("obey", X_Robots_Tag=text))[0] == VOUCHED


@pytest.mark.parametrize("text", ["nofollow", "none", "bot: noindex, nofollow"])
def test_a_page_with_nofollow_leads_nowhere(text: str) -> None:
    """Counts each of its links; ``record`` delivers and follows them."""
    response = _response("obey", X_Robots_Tag=text)
    assert _places(response) == ([], {"nofollow": 6})
    result = LinkSpider().result(response, [(URL, "own")], lastmods=["2026"])
    assert (list(result.links), list(result.lastmods)) == ([], [])
    assert "nofollow" in result.directives
    seen = _response("record", X_Robots_Tag=text)
    assert _places(seen)[0] == ALL
    result = LinkSpider().result(seen, [(URL, "own")])
    assert list(result.links) == [(URL, "own")]
    assert "nofollow" in result.directives


def test_a_crawl_may_be_named_instead_of_a_page() -> None:
    """The wish of that crawl counts."""
    response = HtmlResponse(URL, body=MARKUP.encode())
    assert len(links_of(response, Profile())[0]) == 6
    links, refused = links_of(response, Profile(directives="obey"))
    assert len(links) == 4
    assert refused == {"nofollow": 2}


def test_pages_begin_without_directives() -> None:
    """A page without a response has none, and keeps no links back."""
    page: Page = page_at(URL)
    assert not page.keeps_links
    assert page.directives.texts == ()


@given(anchors=st.lists(st.tuples(st.integers(0, 9), st.booleans())), is_page=st.booleans())
def test_links_are_followed_or_counted(*, anchors: list[tuple[int, bool]], is_page: bool) -> None:
    """Follows each link that one anchor vouches for; every other is counted once."""
    rels = ("", " rel='x nofollow'")
    markup = "".join(f"<a href=/{n}{rels[is_shunned]}>x</a>" for n, is_shunned in anchors)
    response = _response("obey", markup=markup, X_Robots_Tag="nofollow" if is_page else "")
    vouched = {str(n) for n, is_shunned in anchors if not is_shunned}
    followed, counts = _places(response)
    assert set(followed) == (set() if is_page else vouched)
    assert len(followed) + counts.get("nofollow", 0) == len({n for n, _ in anchors})


def test_a_list_with_nofollow_leads_nowhere_and_a_spiders_own_request_does() -> None:
    """A header speaks for sitemaps, too; a request of a spider is the decision of its author."""
    listed = "<urlset><url><loc>/p</loc></url><url><loc>/q</loc></url></urlset>"
    headers = {"Content-Type": "text/xml", "X-Robots-Tag": "nofollow"}
    obeying = {"maxdepth": 1, "directives": "obey"}
    sitemap = crawl_page(SitemapSpider, URL, listed, headers=headers, request=obeying)
    assert (sitemap.outlinks, sitemap.filtered) == ([], {"nofollow": 2})
    assert sitemap.results[0]["links"] == []
    own = crawl_page(OwnSpider, URL, MARKUP, headers=headers, request=obeying)
    assert [link.url for link in own.outlinks] == ["http://a.example/own"]
    assert own.results[0]["directives"] == ["nofollow"]
    nothing = crawl_page(LinkSpider, URL, "<p>x", headers=headers, request=obeying)
    assert nothing.filtered == {}
