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
from lxml import etree
from scrapy.http import HtmlResponse, Response

from crawling.links.hrefs import Hrefs, refusals_of
from crawling.links.scope import rules_for, rules_of
from crawling.links.texts import LinkTexts
from crawling.page.request import page_of
from crawlstream.markup import may_be_deep, parsable
from crawlstream.model.crawl import Profile
from crawlstream.model.web.address import without_fragment

LONGEST_MARKUP = 1 << 20
"""Characters in which links are looked for. What is made of them takes up to 45 times their size:
sixteen million of elements would be 540 MB and seconds of CPU."""

_LONGEST_BODY = 4 * LONGEST_MARKUP
"""Bytes that so many characters take at most."""

MOST_LINKS = 5_000
"""Different addresses that are looked at in one page."""
MOST_ANCHORS = 4 * MOST_LINKS
"""Elements that are looked at, repetitions included: far down a deep tree each one is dear."""
MOST_URL_CHARACTERS = 1 << 19
"""What they may be long together. A base makes each of them as long as it likes."""

_from_here: Any = etree.XPath(
    "count(descendant-or-self::a[@href]) + count(descendant-or-self::area[@href])"
    " + count(following::a[@href]) + count(following::area[@href])"
)

log = structlog.get_logger()


def links_of(
    response: Response, profile: Profile | None = None
) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Address and text of the links that a crawl follows, and how many it does not, by reason.

    The crawl is that of the page, unless another's ``profile`` is given.
    A page that is no HTML has none. Markup that cannot be read has none either: the page counts.
    """
    rules = rules_of(profile) if profile else rules_for(page_of(response).hold)
    found: dict[str, str] = {}
    refused: Counter[str] = Counter()
    links = _extract(response, refused)
    for (url, text), refusal in zip(links, rules.verdicts([url for url, _ in links]), strict=True):
        if refusal is None:
            found.setdefault(without_fragment(url), text)
        else:
            refused[refusal] += 1
    return list(found.items()), refused


def _extract(response: Response, refused: Counter[str]) -> Sequence[tuple[str, str]]:
    """Each link once: its address, with its fragment, and its text."""
    links: list[tuple[str, str]] = []
    if isinstance(response, HtmlResponse):
        try:
            _find(_beginning(response), links, refused)
        except Exception as error:  # noqa: BLE001  whatever the parser trips over, the page is kept
            log.warning("parse", outcome="links_cut", url=response.url, error=str(error)[:200])
    return links


def _find(response: HtmlResponse, links: list[tuple[str, str]], refused: Counter[str]) -> None:
    """Add what anchors and areas point to; not without end, and what is beyond it is counted."""
    markup, is_whole = _markup(response)
    root, is_all_read = root_of(markup)
    if not (is_whole and is_all_read):
        refused["markup_cut"] += 1
        log.warning("parse", outcome="links_cut", url=response.url, read=len(markup))
    resolve, text_of = Hrefs(response, root, markup).resolve, LinkTexts(len(markup)).of
    anchors = root.iter("a", "area")
    hrefs: set[str | None] = {None}
    urls: set[str] = set()
    room = MOST_URL_CHARACTERS
    for element in islice(anchors, MOST_ANCHORS):
        href = element.get("href")
        if href in hrefs:
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
    if (next_one := next(anchors, None)) is not None:
        left = int(_from_here(next_one))
        refused["too_many"] += left
        log.warning("parse", outcome="links_cut", url=response.url, links=left)


_deep = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=True)
_shallow = etree.HTMLParser(recover=True, encoding="utf-8", huge_tree=False)
"""They end where elements are 2048 and 256 deep in one another."""


def root_of(markup: str) -> tuple[Any, bool]:
    """Return the tree of a page, and whether it is all of it.

    It is that of ``response.selector``, with what stands behind a ``</html>`` as well: to browsers
    that belongs to the page, to libxml2 it is a document of its own.
    """
    parser = _deep if may_be_deep(markup) else _shallow
    root = etree.fromstring(markup.encode() or b"<html/>", parser)
    if root is None:
        return etree.fromstring(b"<html/>", parser), True
    for behind in list(root.itersiblings("*")):
        root.append(behind)
    error = parser.error_log.last_error
    return root, error is None or error.type != etree.ErrorTypes.ERR_RESOURCE_LIMIT


def _beginning(response: HtmlResponse) -> HtmlResponse:
    """The response, without what is surely too much: as text it may take four times its bytes."""
    if len(response.body) <= _LONGEST_BODY:
        return response
    return response.replace(body=response.body[:_LONGEST_BODY])


def _markup(response: HtmlResponse) -> tuple[str, bool]:
    """Return the text of a page, or its whole elements as far as may be read; and which of both."""
    text = response.text
    end = len(text) if len(text) <= LONGEST_MARKUP else max(text.rfind("<", 0, LONGEST_MARKUP), 0)
    markup, is_whole = parsable(text[:end])
    return markup, is_whole and end == len(text)
