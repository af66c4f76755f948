"""The links of a page, and which of them a crawl follows.

What counts as a link is as Scrapy's LxmlLinkExtractor has it, which
``tests/unit/crawler/links/test_links.py`` compares with; where it leads is as browsers have it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import islice
from typing import Any

import structlog
from scrapy.http import HtmlResponse, Response

from crawling.links.scope import rules_for, rules_of
from crawling.page.page import Page
from crawling.page.page_traits import read_traits
from crawling.page.parsed_page import ParsedPage
from crawling.page.scrapy_request import page_of
from crawlstream.model.crawl import Profile
from crawlstream.model.web.address import without_fragment
from crawlstream_extract.hrefs import Hrefs, refusals_of
from crawlstream_extract.link_texts import LinkTexts

MOST_LINKS = 5_000
"""Different addresses that are looked at in one page."""
MOST_ANCHORS = 4 * MOST_LINKS
"""Elements that are looked at, repetitions included: far down a deep tree each one is expensive."""
MOST_URL_CHARACTERS = 1 << 19
"""Characters of all addresses of a page. A base element can make each of them long."""

log = structlog.get_logger()


def links_of(
    response: Response, profile: Profile | None = None
) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Address and text of the links that a crawl follows, and how many it does not, by reason.

    The crawl is that of the page, unless another's ``profile`` is given.
    Where directives are obeyed, that is none of a page that says ``nofollow``.
    A page without HTML has none, unless links of documents are read. Unreadable markup has none
    either, and the page still counts.
    """
    page = None if profile else page_of(response)
    rules = rules_for(page.lease) if page else rules_of(profile or Profile())
    obeys = page.obeys_directives if page else profile is not None and profile.directives == "obey"
    found: dict[str, str] = {}
    refused: Counter[str] = Counter()
    links = _extract(response, page, refused, obeys=obeys)
    depth = page.lease.entry.depth + 1 if page else 1
    for (url, text), refusal in zip(links, rules.verdicts(links, depth), strict=True):
        if refusal is None:
            found.setdefault(without_fragment(url), text)
        else:
            refused[refusal] += 1
    if page and page.keeps_links:
        refused.update("nofollow" for _ in found)
        return [], refused
    return list(found.items()), refused


def _extract(
    response: Response, page: Page | None, refused: Counter[str], *, obeys: bool
) -> Sequence[tuple[str, str]]:
    """Each link once: its address, with its fragment, and its text. Note the page's traits."""
    links: list[tuple[str, str]] = []
    if isinstance(response, HtmlResponse):
        try:
            reading = ParsedPage(response)
            _find(reading, response, links, refused, obeys=obeys)
            if page and page.is_watched and page.traits is None:
                page.traits = read_traits(response, reading)
            if page and page.lease.profile.requisites:
                page.reading = response.body, reading
        except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
            log.warning("parse", outcome="links_cut", url=response.url, error=str(error)[:200])
    elif page and page.document:
        links = [(url, "") for url in page.document.urls]
        refused.update(page.document.refused)
    return links


def _find(
    reading: ParsedPage,
    response: HtmlResponse,
    links: list[tuple[str, str]],
    refused: Counter[str],
    *,
    obeys: bool,
) -> None:
    """Add what anchors and areas point to; not without end, and what is beyond it is counted.

    ``obeys``: links with ``rel=nofollow`` are left out, unless they stand elsewhere without it.
    """
    if not reading.is_whole:
        refused["markup_cut"] += 1
        log.warning("parse", outcome="links_cut", url=response.url, read=len(reading.markup))
    resolve = Hrefs(reading.base, response.encoding).resolve
    text_of = LinkTexts(len(reading.markup)).of
    anchors = reading.elements("a", "area")
    hrefs: set[str | None] = {None}
    urls: set[str] = set()
    shunned: set[str] = set()
    room = MOST_URL_CHARACTERS
    for element in islice(anchors, MOST_ANCHORS):
        href = element.get("href")
        if href in hrefs or (obeys and _is_shunned(element, href, shunned)):
            continue
        hrefs.add(href)
        url = resolve(href) or ""
        room -= len(url)
        if not url:
            refused.update(refusals_of(href))
        elif url not in urls:
            urls.add(url)
            links.append((url, text_of(element)))
        if room < 0 or len(hrefs) > MOST_LINKS:
            break
    refused.update("nofollow" for _ in shunned - hrefs)
    if left := sum(element.get("href") is not None for element in anchors):
        refused["too_many"] += left
        log.warning("parse", outcome="links_cut", url=response.url, links=left)


def _is_shunned(element: Any, href: str, shunned: set[str]) -> bool:
    """Return whether an element has ``rel=nofollow``; note that: another may not."""
    rel = element.get("rel")
    is_nofollow = rel is not None and "nofollow" in rel.lower().split()
    if is_nofollow:
        shunned.add(href)
    return is_nofollow
