"""Text and links of a document, and whether it is a shell that scripts fill."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple

from scrapy.http import HtmlResponse

from crawling.page.parsed_page import ParsedPage

_LITTLE_TEXT, _FEW_LINKS = 200, 3
"""Characters and links below which a document is bare."""
_LOADING = 40
"""Characters that the root of an application may show until it runs: `Loading …`."""
_ROOT_IDS = frozenset(
    {"__next", "__nuxt", "___gatsby", "app", "application", "main", "q-app", "root", "svelte"}
)
_NO_SCRIPT = ("json", "template", "text/x-")
"""Parts of the types of script elements that only hold data."""
_STATE_BYTES = 200
_MOST_LINKS = 5_000
_UNSEEN = ("noscript", "script", "style", "template", "textarea", "title")


class Shell(IntEnum):
    """Degree to which a document looks like a shell that scripts fill."""

    NONE = 0
    LIKELY = 1
    """It has an empty place for its content, or next to nothing to read."""
    EVIDENT = 2
    """Both."""


class PageContent(NamedTuple):
    """Texts that a person could read in a document, and links to follow."""

    texts: frozenset[str]
    """Different visible texts, with single spaces."""
    links: frozenset[str]
    """References of its links, as they are written."""
    has_scripts: bool
    shell: Shell

    @property
    def text_size(self) -> int:
        """Return the characters of all texts."""
        return sum(map(len, self.texts))


def content_of(response: HtmlResponse) -> PageContent:
    """Read a document, raw or as a browser has made it."""
    parsed = ParsedPage(response)
    texts = frozenset(_texts_of(parsed))
    links = frozenset(_links_of(parsed))
    has_scripts, has_state = _scripts_of(parsed)
    shell = Shell.NONE
    if has_scripts:
        is_bare = sum(map(len, texts)) < _LITTLE_TEXT and len(links) < _FEW_LINKS
        is_marked = _has_empty_root(parsed) or (is_bare and _wants_scripts(parsed))
        is_bare = is_bare and (is_marked or not has_state)
        shell = Shell(is_bare + is_marked) if texts else Shell.EVIDENT
    return PageContent(texts, links, has_scripts, shell)


def _texts_of(parsed: ParsedPage) -> Iterator[str]:
    found = dict.fromkeys(parsed.texts)
    for element in parsed.elements(*_UNSEEN):
        for text in element.itertext():
            found.pop(text, None)
    for text in found:
        if plain := " ".join(text.split()):
            yield plain


def _links_of(parsed: ParsedPage) -> Iterator[str]:
    for number, element in enumerate(parsed.elements("a", "area")):
        if number == _MOST_LINKS:
            return
        href = (element.get("href") or "").strip()
        if href and not href.startswith(("#", "javascript:")):
            yield href


def _scripts_of(parsed: ParsedPage) -> tuple[bool, bool]:
    """Return whether a document has scripts, and whether it has the state of a drawn page."""
    has_scripts = has_state = False
    for element in parsed.elements("script"):
        kind = (element.get("type") or "").lower()
        is_data = any(each in kind for each in _NO_SCRIPT)
        has_scripts = has_scripts or not is_data
        text = element.text or ""
        is_state = ("json" in kind and "ld+json" not in kind) or "__NUXT__" in text
        has_state = has_state or (is_state and len(text) >= _STATE_BYTES)
    return has_scripts, has_state


def _wants_scripts(parsed: ParsedPage) -> bool:
    """Return whether a document says that it needs scripts."""
    texts = ("".join(element.itertext()) for element in parsed.elements("noscript"))
    return any("javascript" in text.lower() for text in texts)


def _has_empty_root(parsed: ParsedPage) -> bool:
    return any(_is_root(element) and _is_empty(element) for element in parsed.elements())


def _is_root(element: Any) -> bool:
    tag = element.tag
    if not isinstance(tag, str):
        return False
    if tag == "main" or element.get("role") == "main":
        return True
    if element.get("id") in _ROOT_IDS or element.get("ng-app") is not None:
        return True
    parent = element.getparent()
    return "-" in tag and parent is not None and parent.tag == "body"


def _is_empty(element: Any) -> bool:
    if next(element.iter("a", "form", "img"), None) is not None:
        return False
    size = 0
    for text in element.itertext():
        size += len(text.strip())
        if size > _LOADING:
            return False
    return True
