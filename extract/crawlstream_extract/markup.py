"""Limits for the markup of a page, applied before it is parsed.

A parser compares each attribute of an element with all before it, and searches the open elements at
each tag: a hundred thousand attributes take minutes, and half a million tags below two thousand
elements take seconds. Markup is cut where such an element begins.

Reading every tag would take half as long as the parse. So a page is probed first: an element with
too many attributes is long, and cannot pass all of the probes. If a probe finds a place that may be
inside of one, in an attribute, in quotes or only in a script, the tags are read one by one, as in
https://html.spec.whatwg.org (tokenization) and libxml2.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

MOST_ATTRIBUTES = 512
"""Maximum of an element; real pages have some dozens. The probes may pass up to twice as many."""
LONGEST_MARKUP = 1 << 20
"""Characters that are read. What is made of them takes up to 45 times their size: sixteen million
of elements would be 540 MB and seconds of CPU."""
MOST_DEEP_TAGS = 1 << 16
"""Maximum tags of a page whose elements may be nested as deep as the parser allows."""
_TAGS_OF_STEP = 120
"""Number of tags that are matched at a time if all are read."""

_STEP = 1024
"""Characters from one probe to the next."""
_NEAR = 128
"""Characters in which a probe searches for a place that allows a better decision."""
_FAR = 8192
"""Characters in which a probe searches for the end of a tag."""
_BACK = 1 << 16
"""Characters in which a probe searches for the end of the tag before it."""
_MARKS = "<\"'"
"""Only behind these may a tag or a value in quotes begin."""

_SPACE = r"[\t\n\f\r ]"
_QUOTED = r"(?:\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))"
_VALUE = rf"(?:{_QUOTED}|(?![\"'>])[^\t\n\f\r >]++)"
_NAME = r"[^\t\n\f\r />][^\t\n\f\r />=]*+"
_ATTRIBUTE = rf"(?:[\t\n\f\r /]*+{_NAME}(?:{_SPACE}*+={_SPACE}*+{_VALUE}?+)?+)"
_END = r"[\t\n\f\r /]*+>"
_TEXTUAL = "(?:script|style|textarea|title|xmp|iframe|noembed|noframes|plaintext)"
"""Elements whose content is always text."""

_BETWEEN = re.compile(rf"[^\t\n\f\r =]{_SPACE}++(?!=)")
"""Place in a tag, outside of quotes, after which an attribute begins."""
_REST = rf"{_ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+{_END}"
_REST_OF_TAG = re.compile(_REST)
"""Attributes up to the maximum, and the end of their tag."""
_REST_FROM_ANYWHERE = re.compile(
    rf"(?={_REST})(?:(?!{_SPACE}*+=)|(?={_SPACE}*+={_SPACE}*+{_VALUE}?+{_REST}))"
    rf"(?={_SPACE}*+{_VALUE}?+{_REST})[^\t\n\f\r >]*+{_REST}"
)
"""Same as _REST_OF_TAG from any place: in or before a name, after a name, before or in a value."""
_CROWDED_TAG = re.compile(
    rf"</?+[A-Za-z][^\t\n\f\r />]*+{_ATTRIBUTE}{{{MOST_ATTRIBUTES + 1}}}+", re.ASCII
)
_PLAIN = re.compile(
    r"(?:[^<]++|<(?![A-Za-z/!?])"
    rf"|<(?!{_TEXTUAL}[\t\n\f\r />])/?+[A-Za-z][^\t\n\f\r />]*+"
    rf"{_ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+{_END}){{0,{_TAGS_OF_STEP}}}",
    re.ASCII | re.IGNORECASE,
)
"""Pieces of text and tags, up to a comment, an element of text or a crowded element. Their
repetition is not possessive: in Python 3.11.2, one that fails in the end has skipped its last try.
"""
_OF_TEXT = re.compile(
    rf"<({_TEXTUAL})(?=[\t\n\f\r />]){_ATTRIBUTE}{{0,{MOST_ATTRIBUTES}}}+{_END}",
    re.ASCII | re.IGNORECASE,
)
_COMMENT = re.compile(r"<!--(?:-?>)?")
_COMMENT_END = re.compile(r"--!?>")
_IN_SCRIPT = re.compile(r"<!--(?!-*+>)|-->|<(/?)script(?=[\t\n\f\r />])", re.ASCII | re.IGNORECASE)


def parsable(text: str) -> tuple[str, bool]:
    """Return the markup for the parser, and whether it is complete."""
    text = text.strip()
    if "\0" in text:
        text = text.replace("\0", "")
    if not _may_be_crowded(text):
        return text, True
    end = _first_crowded(text)
    return text[:end], end == len(text)


def beginning(text: str) -> tuple[str, bool]:
    """Return the same of a text, as far as its length allows: up to a tag, if one is near."""
    end = len(text)
    if end > LONGEST_MARKUP:
        end = text.rfind("<", LONGEST_MARKUP - _FAR, LONGEST_MARKUP)
        end = LONGEST_MARKUP if end < 0 else end
    markup, is_whole = parsable(text[:end])
    return markup, is_whole and end == len(text)


def may_be_deep(markup: str) -> bool:
    """Return whether markup has few enough tags that deeply nested elements are not expensive."""
    return len(markup) <= MOST_DEEP_TAGS * len("<b>") or markup.count("<") <= MOST_DEEP_TAGS


def pieces(markup: str, tags: int) -> Iterator[str]:
    """Cut markup between tags into pieces with at most ``tags`` tags.

    ``tags`` is at least 240. Comments, scripts and other texts are not cut.
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
    """Return whether a probe may be inside of an element with many attributes.

    A probe does not know its context: it may be in a tag, or in a value in quotes of either kind,
    which ends at the next such quote.
    """
    double = single = plain = 0
    for probe in range(_STEP, len(text), _STEP):
        start = probe
        if probe < plain:
            ends = True
        elif between := _BETWEEN.search(text, probe, probe + _NEAR):
            start = between.end()
            ends = _tag_ends(text, start)
        else:
            ends = _REST_FROM_ANYWHERE.match(text, probe, probe + _FAR) is not None
        if not ends:
            plain = _end_of_plain(text, start)
            ends = plain > 0
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
    """Return whether a tag with an attribute that may begin here ends soon, or with the page."""
    end = text.find(">", at, at + _STEP)
    if (end >= 0 and text.find("=", at, end) < 0) or at == len(text):
        return True
    return _REST_OF_TAG.match(text, at, at + _FAR) is not None


def _end_of_plain(text: str, at: int) -> int:
    """Return where the plain text around a place ends that is in no quotes; 0 if it may be a tag.

    A ``>`` ends a tag, unless it is in quotes; then they end before the place.
    """
    end = text.rfind(">", max(at - _BACK, 0), at)
    if end < 0 or any(text.find(mark, end, at) >= 0 for mark in _MARKS):
        return 0
    return min((found for mark in _MARKS if (found := text.find(mark, at)) >= 0), default=len(text))


def _first_crowded(text: str) -> int:
    """Return the start of the first element with too many attributes, or the end of the text."""
    end = 0
    for end in _steps(text):  # noqa: B007  the last one counts
        pass
    return end


def _steps(text: str) -> Iterator[int]:
    """Yield ends of groups of tags, up to the first element with too many attributes."""
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
    """Return the start of the end tag of an element of text, or the end of the page."""
    name = element[1].lower()
    if name == "script":
        return _behind_script(text, element.end())
    found = name != "plaintext" and _end_tag(name).search(text, element.end())
    return found.start() if found else len(text)


@cache
def _end_tag(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\t\n\f\r />])", re.ASCII | re.IGNORECASE)


def _behind_script(text: str, at: int) -> int:
    """Return the start of a script's end tag; a script in a comment in it has its own end tag."""
    is_comment = is_inner = False
    for found in _IN_SCRIPT.finditer(text, at):
        if found[1] is None:
            is_comment, is_inner = found[0] == "<!--", False
        elif found[1] and not is_inner:
            return found.start()
        elif is_comment:
            is_inner = not found[1]
    return len(text)
