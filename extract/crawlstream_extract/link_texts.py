"""The texts of a page's links: no more of them than a page can have by right.

A link's text is that of its whole element. Elements that stand in each other share it, so that a
megabyte of markup can hold a gigabyte of link text; what is not kept is not even looked at.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from lxml import etree

LONGEST_TEXT = 500
"""Characters of one link; a text that long names nothing any more."""
ALL_TEXTS = 64 * 1024
"""Characters of all links of a page together."""

_text_of: Any = partial(etree.tostring, method="text", encoding="unicode", with_tail=False)
"""The text of an element, six times as fast as by XPath; it does not say how much it has seen."""
_measured: Any = etree.XPath("concat(count(.//node()), ' ', string())", smart_strings=False)


class LinkTexts:
    """Reads the texts of one page's links, first come, first served."""

    def __init__(self, markup: int) -> None:
        """``markup`` are the characters of the page.

        Unless links stand in links, their nodes and their texts together are fewer.
        """
        self._unread = markup
        self._room = ALL_TEXTS

    def of(self, element: Any) -> str:
        """The text of an anchor; empty where the page has had its share."""
        room = self._room
        if not room:
            return ""
        children = len(element)
        if not children:
            text = element.text or ""
        elif children == 1 and _is_small(element[0]):
            text = _text_of(element)
        else:
            text = self._deep(element)
        if len(text) > LONGEST_TEXT or len(text) > room:
            text = text[: min(LONGEST_TEXT, room)]
        self._room = room - len(text)
        return text

    def _deep(self, element: Any) -> str:
        if self._unread <= 0:
            return ""
        nodes, _, text = _measured(element).partition(" ")
        self._unread -= int(nodes) + len(text)
        return str(text)


def _is_small(element: Any) -> bool:
    """Return whether an element has one element in it at most: most links are of such ones."""
    children = len(element)
    return not children or (children == 1 and not len(element[0]))
