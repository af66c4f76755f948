"""Texts of answers, as crawlers read them."""

from __future__ import annotations

from scrapy.http import HtmlResponse

from crawling.page.page_traits import read_traits
from crawling.page.parsed_page import ParsedPage
from crawlstream_chaos.scripted_site import Answer


def text_of(answer: Answer) -> int:
    """Return the hash of the text that an answer shows."""
    response = HtmlResponse("http://127.0.0.1/", body=answer.body)
    text = read_traits(response, ParsedPage(response)).text
    assert text is not None
    return text
