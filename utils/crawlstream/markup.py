"""How much of a page's markup may be parsed: limits that hold before a parser sees any of it.

A parser compares each attribute of an element with all before it, and looks through the elements
that are open at each tag: a hundred thousand attributes take it minutes, and half a million tags
below two thousand elements take seconds. Markup is cut where such an element begins.

To read every tag would take as long as half the parse. So a page is probed first: an element with
too many attributes is long, and cannot pass all of the probes. Where a probe finds what may be the
midst of one, be it in an attribute, in quotes or only in a script, the tags are read one by one, as
https://html.spec.whatwg.org (tokenization) has it and libxml2 does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

MOST_ATTRIBUTES = 512
"""Of an element; pages of people have some dozens. Up to twice as many may pass the probes."""
MOST_DEEP_TAGS = 1 << 16
"""Tags of a page in which elements may stand as deep in one another as the parser goes."""
_TAGS_OF_STEP = 120
"""Tags that are passed at a time where all of them are read."""

_STEP = 1024
"""Characters from one probe to the next."""
_NEAR = 128
"""Characters in which a probe looks for a place that tells more than its own."""
_FAR = 8192
"""Characters in which it looks for the end of a tag."""

_SPACE = r"[\t\n\f\r ]"
_QUOTED = r"(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))"
_VALUE = rf"(?:{_QUOTED}|(?![\"'>])[^\t\n\f\r >]++)"
_NAME = r"[^\t\n\f\r />][^\t\n\f\r />=]*+"
_ATTRIBUTE = rf"(?:[\t\n\f\r /]*+{_NAME}(?:{_SPACE}*+={_SPACE}*+{_VALUE}?+)?+)"
_END = r"[\t\n\f\r /]*+>"
_TEXTUAL = "(?:script|style|textarea|title|xmp|iframe|noembed|noframes|plaintext)"
"""Elements whose content is text, whatever stands in it."""

_BETWEEN = re.compile(rf"[^\t\n\f\r =]{_SPACE}++(?!=)")
"""If this is in a tag and not in quotes, an attribute begins behind it."""
_REST = rf"{_ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+{_END}"
_REST_OF_TAG = re.compile(_REST)
"""Attributes, not too many, and the end of their tag."""
_REST_FROM_ANYWHERE = re.compile(
    rf"(?={_REST})(?:(?!{_SPACE}*+=)|(?={_SPACE}*+={_SPACE}*+{_VALUE}?+{_REST}))"
    rf"(?={_SPACE}*+{_VALUE}?+{_REST})[^\t\n\f\r >]*+{_REST}"
)
"""The same in each case: in a name or before it, behind a name, before a value, or in a value."""
_CROWDED_TAG = re.compile(
    rf"</?+[A-Za-z][^\t\n\f\r />]*+{_ATTRIBUTE}{{{MOST_ATTRIBUTES + 1}}}+", re.ASCII
)
_PLAIN = re.compile(
    r"(?:[^<]++|<(?![A-Za-z/!?])"
    rf"|<(?!{_TEXTUAL}[\t\n\f\r />])/?+[A-Za-z][^\t\n\f\r />]*+"
    rf"{_ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+{_END}){{0,{_TAGS_OF_STEP}}}",
    re.ASCII | re.IGNORECASE,
)
"""Pieces of text and tags, up to what is neither: a comment, an element of text, a crowded one. No
possessive repetition of them: in Python 3.11.2 one that fails at last has passed over its last try.
"""
_OF_TEXT = re.compile(
    rf"<({_TEXTUAL})(?=[\t\n\f\r />]){_ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+{_END}",
    re.ASCII | re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--(?:-?>)?")
_COMMENT_END = re.compile(r"--!?>")
_IN_SCRIPT = re.compile(r"<!--(?!-*+>)|-->|<(/?)script(?=[\t\n\f\r />])", re.ASCII | re.IGNORECASE)


def parsable(text: str) -> tuple[str, bool]:
    """Return the markup that a parser is to be given, and whether that is all of it."""
    text = text.strip().replace("\0", "")
    if not _may_be_crowded(text):
        return text, True
    end = _first_crowded(text)
    return text[:end], end == len(text)


def may_be_deep(markup: str) -> bool:
    """Return whether markup has so few tags that elements which are deep in it cost little."""
    return len(markup) <= MOST_DEEP_TAGS * len("<b>") or markup.count("<") <= MOST_DEEP_TAGS


def pieces(markup: str, tags: int) -> Iterator[str]:
    """Cut markup between tags, so that no piece has more than so many of them.

    ``tags`` are 240 at least. Comments, scripts and other texts stay whole.
    """
    begin = end = found = 0
    for step in _steps(markup):
        found += markup.count("<", end, step)
        end = step
        if found > tags - _TAGS_OF_STEP:
            yield markup[begin:end]
            begin, found = end, 0
    if begin < len(markup):
        yield markup[begin:]


def _may_be_crowded(text: str) -> bool:
    """Return whether a probe may stand in an element with many attributes.

    A probe does not know where it stands: in a tag, or in a value in quotes of either kind, which
    ends at the next of them.
    """
    double = single = 0
    for probe in range(_STEP, len(text), _STEP):
        start = probe
        if between := _BETWEEN.search(text, probe, probe + _NEAR):
            start = between.end()
            ends = _tag_ends(text, start)
        else:
            ends = _REST_FROM_ANYWHERE.match(text, probe, probe + _FAR) is not None
        if ends and double < start:
            double = text.find('"', start) + 1 or len(text)
            ends = _tag_ends(text, double)
        if ends and single < start:
            single = text.find("'", start) + 1 or len(text)
            ends = _tag_ends(text, single)
        if not ends:
            return True
    return False


def _tag_ends(text: str, at: int) -> bool:
    """Return whether a tag in which an attribute may begin here ends soon, or with the page."""
    end = text.find(">", at, at + _STEP)
    if (end >= 0 and text.find("=", at, end) < 0) or at == len(text):
        return True
    return _REST_OF_TAG.match(text, at, at + _FAR) is not None


def _first_crowded(text: str) -> int:
    """Return where the first element with too many attributes begins, or the end of the text."""
    end = 0
    for end in _steps(text):  # noqa: B007  the last one counts
        pass
    return end


def _steps(text: str) -> Iterator[int]:
    """Yield where some tags end each, up to the first element with too many attributes."""
    end = len(text)
    at = 0
    while at < end:
        if (plain := _PLAIN.match(text, at)) and plain.end() > at:
            at = plain.end()
        elif _CROWDED_TAG.match(text, at):
            return
        elif comment := _COMMENT.match(text, at):
            at = _behind_comment(text, comment)
        elif element := _OF_TEXT.match(text, at):
            at = _behind_text(text, element)
        elif text.startswith(("<!", "<?", "</"), at):
            at = text.find(">", at) + 1 or end
        else:
            at = end
        yield at


def _behind_comment(text: str, start: re.Match[str]) -> int:
    if start[0].endswith(">"):
        return start.end()
    found = _COMMENT_END.search(text, start.end())
    return found.end() if found else len(text)


def _behind_text(text: str, element: re.Match[str]) -> int:
    """Return where the end tag of an element of text begins; the end of the page without one."""
    name = element[1].lower()
    if name == "script":
        return _behind_script(text, element.end())
    found = name != "plaintext" and _end_tag(name).search(text, element.end())
    return found.start() if found else len(text)


@cache
def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\t\n\f\r />])", re.ASCII | re.IGNORECASE)


def _behind_script(text: str, at: int) -> int:
    """The same of a script: one that stands in a comment within it has an end tag of its own."""
    is_comment = is_inner = False
    for found in _IN_SCRIPT.finditer(text, at):
        if found[1] is None:
            is_comment, is_inner = found[0] == "<!--", False
        elif found[1] and not is_inner:
            return found.start()
        elif is_comment:
            is_inner = not found[1]
    return len(text)
