"""The links of a page, each once, with its text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

from crawlstream.model.web.address import document_base, without_fragment
from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.link_texts import LinkTexts

MOST_LINKS = 5_000
"""Different addresses of one page."""
_MOST_ANCHORS = 4 * MOST_LINKS
MOST_URL_CHARACTERS = 1 << 19
"""Characters of all addresses of a page. A base element can make each of them long."""


def base_of(root: Any, url: str) -> str:
    """Return the URL that references of a page are relative to; ``url`` is that of the page."""
    for element in root.iter("base"):
        href = element.get("href")
        if href is not None and next(element.iterancestors("template"), None) is None:
            return document_base(url, href)
    return url


def page_links(root: Any, hrefs: Hrefs, length: int) -> Sequence[tuple[str, str]]:
    """Return address, without fragment, and text of links; ``length`` is that of the markup."""
    text_of = LinkTexts(length).of
    found: dict[str, str] = {}
    room = MOST_URL_CHARACTERS
    for element in islice(root.iter("a", "area"), _MOST_ANCHORS):
        href = element.get("href")
        url = href is not None and hrefs.resolve(href)
        if not url or (url := without_fragment(url)) in found:
            continue
        room -= len(url)
        if room < 0 or len(found) == MOST_LINKS:
            break
        found[url] = " ".join(text_of(element).split())
    return list(found.items())
