"""Finds the requisites of a page in its markup, and those of a stylesheet in its rules."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final

from scrapy.http import HtmlResponse, Response, TextResponse

from crawling.page.parsed_page import ParsedPage
from crawling.requisites.css import MOST_CHARACTERS, css_references
from crawlstream.model.web.address import MAX_URL_LENGTH, without_fragment
from crawlstream_extract.hrefs import Hrefs

MOST_FOUND: Final = 1_000
"""Maximum number of different requisites of a page or stylesheet."""
_MOST_ELEMENTS = 50_000
_MOST_REFERENCES = 4 * MOST_FOUND
"""Maximum number of references that are read, repetitions included."""

STYLESHEET, SCRIPT, IMAGE, OF_STYLES, CANDIDATE, MEDIA = range(6)
"""Ranks: of the requisites of a page, those of a lower rank are requested first. ``OF_STYLES`` are
images and fonts of styles, ``CANDIDATE`` are further sizes of images."""

TYPES: Final[Mapping[int, str]] = MappingProxyType(
    {
        STYLESHEET: "Stylesheet",
        SCRIPT: "Script",
        IMAGE: "Image",
        OF_STYLES: "Image",
        CANDIDATE: "Image",
        MEDIA: "Media",
    }
)
"""Resource types by rank, with the names that browsers use."""

_FIRST = re.compile(r"[\s,]*+(\S++)")
_DESCRIPTORS = re.compile(r"(?:[^,(]|\([^)]*+\)?+)*+")
_ICONS = frozenset({"icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon"})
_ATTRIBUTES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "audio": {"src": MEDIA},
        "body": {"background": IMAGE},
        "embed": {"src": MEDIA},
        "image": {"href": IMAGE, "xlink:href": IMAGE},
        "img": {"src": IMAGE},
        "input": {"src": IMAGE},
        "script": {"src": SCRIPT},
        "source": {"src": MEDIA},
        "table": {"background": IMAGE},
        "td": {"background": IMAGE},
        "track": {"src": MEDIA},
        "video": {"poster": IMAGE, "src": MEDIA},
    }
)
"""Attributes with a reference, by element."""


@dataclass(frozen=True, slots=True, order=True)
class Requisite:
    """A requisite, without the fragment of its reference."""

    rank: int
    url: str


def requisites_of(response: HtmlResponse) -> list[Requisite]:
    """Return the different requisites of a page, in the order of its markup."""
    return requisites_in(ParsedPage(response), response.encoding, response.url)


def requisites_in(reading: ParsedPage, encoding: str, url: str) -> list[Requisite]:
    """Return the different requisites of a parsed page, in the order of its markup."""
    resolve = Hrefs(reading.base, encoding).resolve
    elements = islice(reading.elements("*"), _MOST_ELEMENTS)
    references = (found for element in elements for found in _references_of(element))
    return _resolved(references, resolve, url)


def requisites_of_styles(response: Response) -> list[Requisite]:
    """Return the different requisites of a stylesheet, in its order."""
    is_text = isinstance(response, TextResponse)
    # A character takes at most four bytes.
    body = response.body[: 4 * MOST_CHARACTERS]
    short = response.replace(body=body) if len(body) < len(response.body) else response
    text = short.text if is_text else body.decode("utf-8", "replace")
    encoding = response.encoding if isinstance(response, TextResponse) else "utf-8"
    return _resolved(_in_styles(text), Hrefs(response.url, encoding).resolve, response.url)


def _resolved(
    references: Iterator[tuple[int, str]], resolve: Callable[[str], str | None], own: str
) -> list[Requisite]:
    found: dict[str, Requisite] = {}
    for rank, reference in islice(references, _MOST_REFERENCES):
        if not reference.strip() or reference.lstrip()[0] == "#":
            continue
        url = without_fragment(resolve(reference) or "")
        if not url or url == own or len(url) > MAX_URL_LENGTH:
            continue
        found[url] = min(found.get(url, Requisite(rank, url)), Requisite(rank, url))
        if len(found) == MOST_FOUND:
            break
    return list(found.values())


def _references_of(element: Any) -> Iterator[tuple[int, str]]:
    """Yield rank and reference of what an element needs."""
    name = element.tag
    for attribute, rank in _ATTRIBUTES.get(name, {}).items():
        if reference := element.get(attribute):
            yield rank, reference
    if name == "link":
        yield from _of_link(element)
    elif name in {"img", "source"}:
        for url in candidates_in(element.get("srcset") or ""):
            yield CANDIDATE, url
    elif name == "style":
        yield from _in_styles(element.text or "")
    if style := element.get("style"):
        yield from _in_styles(style)


def _of_link(element: Any) -> Iterator[tuple[int, str]]:
    rel, href = set((element.get("rel") or "").lower().split()), element.get("href")
    if href and "stylesheet" in rel:
        yield STYLESHEET, href
    elif href and not rel.isdisjoint(_ICONS):
        yield IMAGE, href


def _in_styles(text: str) -> Iterator[tuple[int, str]]:
    for reference, is_import in css_references(text):
        yield STYLESHEET if is_import else OF_STYLES, reference


def candidates_in(srcset: str) -> Iterator[str]:
    """Yield the references of a ``srcset``, as the HTML Standard splits it at commas."""
    at = 0
    while first := _FIRST.match(srcset, at):
        url, at = first[1], first.end()
        if bare := url.rstrip(","):
            yield bare
        if url == bare:
            descriptors = _DESCRIPTORS.match(srcset, at)
            at = descriptors.end() if descriptors else at
