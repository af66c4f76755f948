"""Links in Markdown text, as ``llms.txt`` files (llmstxt.org) have them, in one pass.

They are inline links: ``[text](URL)``, with or without a title. Images and code blocks have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_CODE = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_TARGET = re.compile(
    r"[ \t]*+(?:<([^<>\n]*+)>|((?:[^\s()<>]|\([^\s()<>]*+\))++))(?=[\s)])"
)  # fmt: skip
"""URL of a link; it may have parentheses in pairs."""
_LONGEST_TEXT = 1_000
"""Characters before the middle of a link in which its text begins."""


def markdown_links(text: str) -> Iterator[tuple[str, str]]:
    """Yield text and URL of each link, as written: URLs may be relative.

    A text is divided at the middles of its links, so each character is read once.
    """
    before, *parts = _CODE.sub("", text).split("](")
    for part in parts:
        label, target = _label_of(before), _TARGET.match(part)
        before = part
        if label is not None and target:
            url = target[1] or target[2] or ""
            yield label, url.replace("&amp;", "&")


def _label_of(before: str) -> str | None:
    """Return the text of a link, from the text before its middle; None: no link, or an image."""
    head, bracket, label = before[-_LONGEST_TEXT:].rpartition("[")
    if not bracket:  # The text may be an image, whose end is all that is left of it.
        return "" if before.endswith(")") else None
    return None if head.endswith("!") else " ".join(label.split())
