"""Comparison of a document as its site sends it with the same one as a browser makes it."""

from __future__ import annotations

from crawling.autorender.page_content import PageContent

_LEAST_TEXT, _LEAST_LINKS = 40, 2
_SHARE = 4
"""A quarter of all text, or of all links, is a reason to render."""


def needs_browser(sent: PageContent, made: PageContent) -> bool:
    """Return whether a page has text or links worth a browser that only scripts add."""
    more_text = sum(map(len, made.texts - sent.texts))
    if more_text >= _LEAST_TEXT and more_text * _SHARE >= made.text_size:
        return True
    more_links = len(made.links - sent.links)
    return more_links >= _LEAST_LINKS and more_links * _SHARE >= len(made.links)
