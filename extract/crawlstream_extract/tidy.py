"""A page without hidden, active and surrounding elements, and with absolute links.

Three kinds of elements are removed: those that are never content, those that a reader does not see,
and, for the main content, those around it. No attribute stays that could load or run anything.
Texts lose characters that are invisible or reorder others.

The tree is linear in the markup, and so is what can be made of it: lists and quotations nest a
bounded number of levels, and tables have no cell that spans more than a row of a screen, because
Markdown repeats indentation in each line, and cells in each column.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lxml import etree

from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.markup import may_be_deep

_NEVER = frozenset(
    {
        *("applet", "audio", "base", "canvas", "embed", "frame", "frameset", "iframe"),
        *("input", "link", "math", "meta", "noembed", "noframes", "noscript", "object", "param"),
        *("rp", "script", "source", "style", "svg", "template", "title", "track", "video"),
    }
)
_AROUND = frozenset({"button", "datalist", "dialog", "footer", "nav", "select", "textarea"})
_ROLES_AROUND = frozenset(
    {"alertdialog", "banner", "contentinfo", "dialog", "navigation", "search"}
)
_CONTENT = frozenset({"article", "main"})
_NAMES_AROUND = re.compile(
    r"(?:^|[\s_-])(?:breadcrumbs?|newsletter|related|share|sharing|social)(?=$|[\s_-])"
)
"""Names of elements that surround content, if they stand outside of it."""
_NAMES_NEVER = re.compile(
    r"cookie-?_?(?:ba[rn]|consent|notice|popup)|(?:^|[\s_-])(?:cookies?|gdpr)$"
)
"""Names of elements that are never content."""
_HIDDEN = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*hidden|font-size\s*:\s*0(?![.\d]*[1-9])", re.IGNORECASE
)
_RAW = frozenset({"listing", "plaintext", "xmp"})
_CODE = frozenset({"code", "pre"})
_AROUND_CODE = frozenset(
    {
        *("article", "aside", "blockquote", "body", "center", "dd", "details", "div", "fieldset"),
        *("figure", "form", "header", "html", "li", "main", "section", "td", "th"),
    }
)
"""Elements that may have a block of code in them; elsewhere, Markdown would have half of one."""
_IN_BETWEEN = frozenset({"dl", "ol", "table", "tbody", "tfoot", "thead", "tr", "ul"})
_KINDS = {
    tag: (tag in _CODE, tag in _CONTENT, tag not in _AROUND_CODE | _IN_BETWEEN)
    for tag in _CODE | _CONTENT | _AROUND_CODE | _IN_BETWEEN
}
_INLINE = (False, False, True)
"""Three flags of an element by its tag, and of other tags: code, content, within a line."""
_LEVELS = frozenset({"blockquote", "dl", "ol", "ul"})
MOST_LEVELS = 16
"""Lists and quotations in one another."""
_MOST_SPAN = 20
_MOST_URL_CHARACTERS = 1 << 20
"""Characters of all addresses of a page."""
_FOR_PROGRAMS = re.compile(r"(?:mailto|tel):[\w.+%@-]{1,254}", re.ASCII | re.IGNORECASE)
_LANGUAGE = re.compile(
    r"(?:^|\s)(?:lang|language|highlight-source)-([\w+#.-]{1,30})(?=\s|$)", re.ASCII
)

_INVISIBLE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\xad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e007f]"
)
_REMOVED = "crawlstream-removed"

_deep: Any = etree.HTMLParser(
    recover=True, encoding="utf-8", huge_tree=True, remove_comments=True, remove_pis=True
)
_shallow: Any = etree.HTMLParser(
    recover=True, encoding="utf-8", huge_tree=False, remove_comments=True, remove_pis=True
)
"""They end where elements are 2048 and 256 deep in one another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TidyOptions:
    """Contents of a tidy page."""

    main: bool = True
    """Only the main content."""
    hidden: bool = False
    """Also what a reader does not see."""
    links: bool = True
    images: bool = False
    is_inert: bool = True
    """Texts are written so that they have no meaning in Markdown."""
    is_shallow: bool = False
    """Elements are 256 deep in one another at most, for parsers that take longer the deeper."""


def tidied(markup: str, hrefs: Hrefs, options: TidyOptions) -> str:
    """Return markup that has been tidied; ``markup`` is `markup.parsable`."""
    parser = _deep if may_be_deep(markup) and not options.is_shallow else _shallow
    root = etree.fromstring(markup.encode("utf-8", "replace") or b"<html/>", parser)
    if root is None:
        return ""
    roots = (root, *root.itersiblings("*"))
    for each in roots:
        _Walk(hrefs, options).tidy(each)
    return "".join(etree.tostring(each, encoding="unicode", method="html") for each in roots)


class _Walk:
    """A walk through a tree, which it changes."""

    def __init__(self, hrefs: Hrefs, options: TidyOptions) -> None:
        self._hrefs = hrefs
        self._options = options
        self._texts = InertTexts() if options.is_inert else None
        self._room = _MOST_URL_CHARACTERS
        self._in_code = self._in_content = self._in_inline = self._levels = 0

    def tidy(self, root: Any) -> None:
        """Change the elements below it, and itself."""
        walk = etree.iterwalk(root, events=("start", "end"))
        for event, element in walk:
            if event == "end":
                self._leave(element)
                if (tail := element.tail) and (made := self._text(tail)) != tail:
                    element.tail = made
                continue
            given = dict(element.items())
            if element is not root and self._is_removed(element.tag, given):
                element.tag = _REMOVED
                walk.skip_subtree()
            else:
                self._enter(element, given)
                if (text := element.text) and (made := self._text(text)) != text:
                    element.text = made
        etree.strip_elements(root, _REMOVED, with_tail=False)

    def _text(self, text: str) -> str:
        text = _visible(text)
        if not text or self._texts is None or self._in_code:
            return text
        return self._texts.of(text)

    def _is_removed(self, tag: str, given: Mapping[str, str]) -> bool:
        if tag in _NEVER or (tag == "img" and not self._options.images):
            return True
        if not given:
            return self._options.main and tag in _AROUND
        get = given.get
        if not self._options.hidden and (
            get("hidden") is not None
            or get("aria-hidden") == "true"
            or ((style := get("style")) and _HIDDEN.search(style))
        ):
            return True
        return self._options.main and self._is_around(tag, given)

    def _is_around(self, tag: str, given: Mapping[str, str]) -> bool:
        """Return whether an element stands around the content."""
        if tag in _AROUND or given.get("role") in _ROLES_AROUND:
            return True
        names = f"{given.get('id', '')} {given.get('class', '')}"
        if names == " ":
            return False
        named = _named if len(names) <= _LONGEST_REMEMBERED else _named.__wrapped__
        is_never, is_around = named(names)
        return is_never or (is_around and not self._in_content)

    def _enter(self, element: Any, given: Mapping[str, str]) -> None:
        tag = element.tag
        if tag in _RAW or tag == "pre":
            tag = element.tag = "div" if self._in_inline or _is_between(element) else "pre"
        elif tag == "head":
            # libxml2 leaves elements there that it does not know, such as main.
            tag = element.tag = "div"
        elif tag == "rt":
            # The engine puts it into parentheses, which may follow a bracket.
            tag = element.tag = "span"
            element.text = f" {element.text or ''}"
        if tag in _LEVELS:
            if self._levels < MOST_LEVELS:
                self._levels += 1
            else:
                element.tag = "div"
        is_code, is_content, is_inline = _KINDS.get(tag, _INLINE)
        self._in_code += is_code
        self._in_content += is_content
        self._in_inline += is_inline
        if given:
            self._enter_attributes(element, tag, given)

    def _leave(self, element: Any) -> None:
        tag = element.tag
        if tag == _REMOVED:
            return
        self._levels -= tag in _LEVELS
        is_code, is_content, is_inline = _KINDS.get(tag, _INLINE)
        self._in_code -= is_code
        self._in_content -= is_content
        self._in_inline -= is_inline

    def _enter_attributes(self, element: Any, tag: str, given: Mapping[str, str]) -> None:
        """Replace the attributes of an element by those that stay."""
        if len(given) == 1 and self._options.main and tag not in _WITH_OTHERS:
            # Most elements have one class.
            ((name, value),) = given.items()
            if name in _NAMES and value and _visible(value) == value:
                return
        kept = self._kept(element, tag, given)
        if self._options.main and tag not in _CODE:
            kept |= {name: given[name] for name in _NAMES if name in given}
        element.attrib.clear()
        for name, kept_value in kept.items():
            if kept_value:
                element.set(name, _visible(kept_value))

    def _kept(self, element: Any, tag: str, given: Mapping[str, str]) -> dict[str, str | None]:
        if tag == "a" and self._options.links:
            return {"href": self._address(given.get("href"))}
        if tag == "img":
            url = self._address(given.get("src"))
            element.tag = "img" if url else "span"
            return {"src": url, "alt": url and _NOT_IN_ALT.sub(" ", given.get("alt", ""))}
        if tag in ("td", "th"):
            return {name: _span(given.get(name)) for name in ("colspan", "rowspan")}
        if tag in _CODE and (found := _LANGUAGE.search(given.get("class", ""))):
            return {"class": f"language-{found[1]}"}
        if tag == "ol" and (start := given.get("start", "")).isdecimal():
            return {"start": start[:9]}
        return {}

    def _address(self, href: str | None) -> str | None:
        """Return an address within the limit of a page; None where it leads nowhere."""
        if not href:
            return None
        url = href if _FOR_PROGRAMS.fullmatch(href) else self._hrefs.resolve(href)
        if url and _UNBALANCED.search(_BALANCED.sub("", url)):
            # The engine writes it into a definition as it is, where it would be no address.
            url = url.replace("(", "%28").replace(")", "%29")
        if url:
            self._room -= len(url)
        return url if self._room >= 0 else None


_MOST_REMEMBERED, _LONGEST_REMEMBERED = 4096, 100
"""Number of names in the cache, and the longest of them in characters; a site repeats names."""
_NAMES = ("class", "id", "role")
"""Attributes by which the engine recognizes what is not content."""
_WITH_OTHERS = frozenset({"a", "img", "ol", "td", "th", *_CODE})
"""Elements that keep other attributes, too, or only others."""
_BALANCED, _UNBALANCED = re.compile(r"\([^()]*\)"), re.compile(r"[()]")
_NOT_IN_ALT = re.compile(r"[\[\]<>`()\\!\s]+")


def _visible(text: str) -> str:
    return text if text.isascii() and text.isprintable() else _INVISIBLE.sub("", text)


@lru_cache(_MOST_REMEMBERED)
def _named(names: str) -> tuple[bool, bool]:
    """Return whether an element with these names is never content, and whether it surrounds it."""
    names = names.lower()
    return _NAMES_NEVER.search(names) is not None, _NAMES_AROUND.search(names) is not None


def _is_between(element: Any) -> bool:
    """Return whether an element stands where only rows, cells or items may."""
    parent = element.getparent()
    return parent is not None and parent.tag in _IN_BETWEEN


def _span(value: str | None) -> str | None:
    return value if value and value.isdecimal() and int(value[:9]) <= _MOST_SPAN else None


_ACTIVE = re.compile(r"<(?=[A-Za-z/!?]|\Z)|\](?=[(\[:])|`|~(?=~|\Z)|(?<=~)~|\A~")
"""Where Markdown would begin a tag or code, or end the text of a link."""


class InertTexts:
    """Writes texts of a page, one after the other, so that none means anything in Markdown.

    Two texts that are harmless by themselves may stand side by side in the end.
    """

    def __init__(self) -> None:
        self._last = ""

    def of(self, text: str) -> str:
        """Return a text with character references where Markdown would find more than text."""
        first, last = text[0], self._last
        self._last = text[-1]
        made = _ACTIVE.sub(_reference, text)
        if (last == "]" and first in "([:") or (last == "!" and first == "["):
            made = f"&#{ord(first)};{made[1:]}"
        return made


def _reference(found: re.Match[str]) -> str:
    return "&lt;" if found[0] == "<" else f"&#{ord(found[0])};"
