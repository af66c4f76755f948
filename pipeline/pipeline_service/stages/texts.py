"""The text that a stage reads: a field of an earlier stage, or the visible text of the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lxml import etree

from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page

_FIELDS = ("text", "markdown")
_UNSEEN = frozenset({"script", "style", "noscript", "template", "svg", "head"})


def text_of(page: Page, draft: Draft, name: str = "") -> str | None:
    """Return the field with this name, if it is a text.

    Without a name: ``text``, or else ``markdown``, or else the visible text of the page.
    """
    for field in (name,) if name else _FIELDS:
        if isinstance(found := draft.fields.get(field), str):
            return found
    return None if name else visible_text(page).strip() or None


def visible_text(page: Page) -> str:
    """Return the text that a reader of the page may see; of a page other than HTML, all text."""
    return " ".join(_seen_texts(page.select.root)) if page.is_html else page.text


def _seen_texts(root: Any) -> Iterator[str]:
    """Yield the texts of a tree in their order, in one walk: ``ancestor::`` looks up for each."""
    walk = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, node in walk:
        if event == "start" and node.tag in _UNSEEN:
            walk.skip_subtree()
        elif event == "start":
            yield node.text or ""
        else:
            yield node.tail or ""
