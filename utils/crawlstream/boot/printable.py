"""Text of others as it may be shown: what a terminal would obey is written out instead.

A client chooses its ids and URLs, a site its pages. On a terminal an escape sequence in them may
rewrite lines that were shown, set the clipboard or change the title.
"""

from __future__ import annotations

import re

_OBEYED = re.compile(
    "["
    "\x00-\x08\x0b-\x1f\x7f-\x9f"  # C0 without tab and line feed, DEL, C1
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # marks that turn the direction of text
    "\u2028\u2029"  # ends of lines that no program counts as such
    "\ud800-\udfff"  # lone surrogates, which cannot be written at all
    "]"
)


def printable(text: str) -> str:
    r"""``text`` with every character that a terminal obeys as ``\u001b``, as JSON has it.

    Tabs and line feeds stay; what was JSON is the same JSON.
    """
    # Most text has no such character, and this runs for a line of a log per page.
    return text if text.isprintable() else _OBEYED.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    return f"\\u{ord(found.group()):04x}"
