"""Reading a page costs what its length allows, whatever the page is made of.

``HOSTILE_MARKUP=long`` reads all shapes in 2 MiB, too.
"""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from crawling.links.extract import links_of
from crawling.page.directives import directives_of
from crawling.response.charset import with_charset
from crawling.response.redirects import redirect_of
from crawlstream.model.crawl import Profile
from crawlstream_extract.sitemaps import listing_of
from support.hostile.markup import LONG, cpu_s, shapes
from support.pages import page_at

URL = "http://a.example/page"
_KIB, _MIB = 1 << 10, 1 << 20
_LARGE = 2 * _MIB
SHAPES = shapes()
COSTLY = ("attributes \" a{}='>'\"", "500 attributes each", "<a> 2040 deep", "links", "deep texts")


def _read_page(text: str, charset: str = "utf-8") -> None:
    headers = {"Content-Type": "text/html"}
    response = with_charset(HtmlResponse(URL, body=text.encode(charset), headers=headers))
    assert isinstance(response, HtmlResponse)
    redirect_of(page_at(URL), response, 100)
    directives_of(response, "bot")
    links_of(response, Profile(maxdepth=1))


def _read_sitemap(text: str) -> None:
    listing_of(f"{URL}.xml", f"<urlset>{text}".encode())


READERS = {"page": _read_page, "sitemap": _read_sitemap}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("name", SHAPES)
def test_no_shape_of_markup_costs_more_than_its_length(name: str, reader: str) -> None:
    """Four times the length costs no more than eight times the CPU, and little at any length."""
    read = READERS[reader]
    short, text = SHAPES[name](64 * _KIB), SHAPES[name](256 * _KIB)
    spent_s = cpu_s(lambda: read(text))
    assert spent_s < 0.7
    assert spent_s < 0.25 or spent_s < 8 * max(cpu_s(lambda: read(short)) for _ in range(2))


@pytest.mark.parametrize("name", SHAPES if LONG else COSTLY)
def test_two_mebibytes_of_any_shape_cost_a_second(name: str) -> None:
    """As the longest of pages, in any charset."""
    text = SHAPES[name](_LARGE)
    assert cpu_s(lambda: _read_page(text)) < 1
    assert cpu_s(lambda: _read_sitemap(text)) < 1
    wide = text[: len(text) // 2]
    assert cpu_s(lambda: _read_page(wide, "utf-16")) < 1
