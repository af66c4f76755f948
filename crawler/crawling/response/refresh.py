"""Where a page says that a browser shall go next: ``<meta http-equiv=refresh>``.

Read as the HTML Standard has it (shared declarative refresh steps).
"""

from __future__ import annotations

import re

from scrapy.http import HtmlResponse

from crawling.links.extract import root_of
from crawling.links.hrefs import Hrefs
from crawlstream.markup import parsable

_HEAD = 4096
"""Characters in which a refresh is looked for; they are no fewer bytes, as a rule."""

_SPACE = "\t\n\f\r "
_CONTENT = re.compile(
    r"[\t\n\f\r ]*(?:([0-9]{1,9})|(?=\.))[0-9.]*"
    r"(?:\Z|(?=[;,\t\n\f\r ])[\t\n\f\r ]*[;,]?[\t\n\f\r ]*"
    r"(?:url[\t\n\f\r ]*=[\t\n\f\r ]*)?(.*))",
    re.IGNORECASE | re.DOTALL,
)
"""Seconds, what of them does not count, a separator, and the reference."""


def refresh_of(response: HtmlResponse) -> tuple[int, str] | None:
    """Return after how many seconds a page sends where; None where it says nothing of it.

    The first refresh counts that can be read. One in ``<noscript>`` is for others than browsers.
    """
    if b"refresh" not in response.body[:_HEAD].lower():
        return None
    head, _ = parsable(response.text[:_HEAD])
    root, _ = root_of(head)
    for element in root.iter("meta"):
        if (element.get("http-equiv") or "").lower() != "refresh":
            continue
        if next(element.iterancestors("noscript"), None) is not None:
            continue
        if found := read(element.get("content") or ""):
            seconds, reference = found
            target = Hrefs(response, root, head).resolve(reference) if reference else None
            return (seconds, target) if target else None
    return None


def read(content: str) -> tuple[int, str] | None:
    """Return seconds and reference of a refresh, "" for the page itself; None where it is none."""
    match = _CONTENT.fullmatch(content)
    if match is None:
        return None
    reference = match[2] or ""
    if reference[:1] in {"'", '"'}:
        reference = reference[1:].partition(reference[0])[0]
    return int(match[1] or 0), reference.strip(_SPACE)
