"""Reads the traits of a response: once, with its links where these are searched."""

from __future__ import annotations

import structlog
from scrapy.http import HtmlResponse, Response

from crawling.page.page import Page
from crawling.page.parsed_page import ParsedPage
from crawling.quality.canonical import canonical_of
from crawling.quality.page_text import signature_of
from crawling.quality.traits import NO_TRAITS, Traits

log = structlog.get_logger()


def traits_of(page: Page, response: Response) -> Traits:
    """Return the traits of a page; none where they are not wanted. Unreadable markup has none."""
    if not page.is_watched:
        return NO_TRAITS
    if page.traits is None:
        try:
            reading = ParsedPage(response) if isinstance(response, HtmlResponse) else None
            page.traits = read_traits(response, reading)
        except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
            log.warning("parse", outcome="traits_unread", url=response.url, error=str(error)[:200])
            page.traits = NO_TRAITS
    return page.traits


def read_traits(response: Response, reading: ParsedPage | None) -> Traits:
    """Return the traits of a response and its markup; None: it has none."""
    url, headers = response.url, response.headers
    links = headers.getlist(b"Link") if b"Link" in headers else []
    if reading is None:
        return Traits(None, canonical_of(url, links, url, ()))
    signature = signature_of(reading.texts, url, reading.hidden_texts)
    canonical = canonical_of(url, links, reading.base, reading.canonicals)
    return Traits(signature, canonical)
