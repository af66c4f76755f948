"""References of a stylesheet, by the tokens of CSS (https://www.w3.org/TR/css-syntax-3/).

Each character is read once, whatever the text is: comments and strings that do not end reach to the
end of the text or the line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

MOST_CHARACTERS = 1024 * 1024
"""Characters of a stylesheet that are read."""
_TOKEN = re.compile(
    r"""
    /\*(?:[^*]|\*(?!/))*+(?:\*/)?+
    |@namespace[^;]*+
    |(?P<import>@import\s*+)?(?:
        url\(\s*+(?:
            "(?P<url2>(?:[^"\\\n]|\\[\s\S])*+)
            |'(?P<url1>(?:[^'\\\n]|\\[\s\S])*+)
            |(?P<bare>(?:[^"'()\\\s]|\\[0-9a-f]{1,6}\s?+|\\.)*+)
        )
        |"(?P<text2>(?:[^"\\\n]|\\[\s\S])*+)["\n]?+
        |'(?P<text1>(?:[^'\\\n]|\\[\s\S])*+)['\n]?+
    )
    """,
    re.VERBOSE | re.IGNORECASE,
)
_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|\n|([\s\S]))")
_LAST_CHARACTER = 0x10FFFF


class CssReference(NamedTuple):
    """A reference, as it is written."""

    reference: str
    is_import: bool
    """True if it names another stylesheet."""


def css_references(text: str) -> Iterator[CssReference]:
    """Yield what ``url()`` and ``@import`` of a stylesheet refer to, in its order."""
    for token in _TOKEN.finditer(text[:MOST_CHARACTERS]):
        named = token.groupdict()
        is_import = named["import"] is not None
        found = named["url2"] or named["url1"] or named["bare"]
        if is_import:
            found = found or named["text2"] or named["text1"]
        if found:
            yield CssReference(_ESCAPE.sub(_plain, found), is_import)


def _plain(escape: re.Match[str]) -> str:
    """Return the character that an escape stands for; none for a line that goes on."""
    digits, character = escape.groups()
    if digits is None:
        return character or ""
    code = int(digits, 16)
    return chr(code) if 0 < code <= _LAST_CHARACTER else "\ufffd"
