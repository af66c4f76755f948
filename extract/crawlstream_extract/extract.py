"""The formats of one page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from crawlstream_extract.cut import cut, cut_markdown
from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.markdown import MarkdownOptions, markdown_of, plain_text_of
from crawlstream_extract.markup import LONGEST_MARKUP, beginning
from crawlstream_extract.metadata import metadata
from crawlstream_extract.page_links import base_of, page_links
from crawlstream_extract.page_tree import is_html, selector_of, text_of
from crawlstream_extract.safe_html import safe_html
from crawlstream_extract.sitemaps import listing_of
from crawlstream_extract.tidy import InertTexts

FORMATS: Final = ("markdown", "text", "html", "links", "metadata")
SITEMAP: Final = "sitemap"
"""A further format, of sitemaps, feeds and robots.txt: ``pages``, a list of URL and last change,
``sitemaps``, a list of URLs, and ``refused``, numbers by reason, as of ``SitemapListing``."""
MOST_BYTES = 4 * LONGEST_MARKUP
"""Bytes of a body that are read; what is behind them is left out."""
MOST_CHARS = 200_000
"""Characters of a text that is not limited otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtractRequest:
    """Which formats of which page."""

    body: bytes
    """As the site has sent it, decompressed."""
    encoding: str | None
    """Python's name of the charset; ``binary``: not text; None: unknown."""
    mime: str
    """Media type in lower case; empty if the site names none."""
    url: str
    """Address of the response."""
    formats: Collection[str]
    """Elements of FORMATS, or SITEMAP."""
    main: bool = True
    """Only the main content in ``markdown``, ``text`` and ``html``."""
    max_chars: int = MOST_CHARS
    """Limit of each text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """Formats of a page."""

    formats: Mapping[str, Any] = field(default_factory=dict)
    """Values of the formats: ``markdown``, ``text`` and ``html`` are texts, ``links`` is a list of
    objects with ``url`` and ``text``, ``metadata`` is an object with `metadata.FIELDS`; None where
    a page cannot have the format, or where it has failed."""
    truncated: bool = False
    """True if a text was cut at ``max_chars``, or the body at MOST_BYTES."""
    problems: tuple[str, ...] = ()
    """Reasons, as ``FORMAT: CODE``, of the formats that are None."""


def extract(request: ExtractRequest) -> Extracted:
    """Return the formats of a page that are asked for. It takes time and memory: use `work`."""
    page = _Page(request)
    made: dict[str, Any] = {}
    problems: list[str] = []
    for name in request.formats:
        made[name] = None
        try:
            if name == SITEMAP:
                made[name] = _listing(request)
            elif page.is_html:
                made[name] = _OF_HTML[name](page)
            elif name in ("markdown", "text") and page.text:
                made[name] = page.plain(name)
            else:
                problems.append(f"{name}: not_html")
        except MemoryError:
            raise
        except Exception as error:  # noqa: BLE001  the other formats may be there all the same
            problems.append(f"{name}: {type(error).__name__}")
    return Extracted(formats=made, truncated=page.is_cut, problems=tuple(problems))


class _Page:
    """A page, and the parts of it that several formats need."""

    def __init__(self, request: ExtractRequest) -> None:
        self.request = request
        self.is_cut = len(request.body) > MOST_BYTES
        self.is_html = is_html(request.mime, request.encoding, request.body)

    @cached_property
    def text(self) -> str:
        """The body as text."""
        return text_of(self.request.body[:MOST_BYTES], self.request.encoding)

    @cached_property
    def markup(self) -> str:
        """The text, as far as a parser may read it."""
        markup, is_whole = beginning(self.text)
        self.is_cut |= not is_whole
        return markup

    @cached_property
    def root(self) -> Any:
        """The tree."""
        return selector_of(self.markup).root

    @cached_property
    def hrefs(self) -> Hrefs:
        """Resolves the references of the page."""
        return Hrefs(base_of(self.root, self.request.url), self.request.encoding or "utf-8")

    def plain(self, name: str) -> str:
        """Return text other than HTML, as Markdown or unchanged."""
        if name == "text":
            return self.within(self.text, cut)
        return self.within(InertTexts().of(self.text), cut_markdown)

    def within(self, text: str, how: Callable[[str, int], tuple[str, bool]]) -> str:
        """Return a text within the limit."""
        text, is_cut = how(text, self.request.max_chars)
        self.is_cut |= is_cut
        return text


def _listing(request: ExtractRequest) -> dict[str, Any]:
    found = listing_of(request.url, request.body)
    return {
        "pages": [[one.url, one.lastmod] for one in found.pages],
        "sitemaps": [one.url for one in found.sitemaps],
        "refused": dict(found.refused),
    }


def _markdown(page: _Page) -> str:
    options = MarkdownOptions(main=page.request.main)
    text, _ = markdown_of(page.markup, page.hrefs, options)
    return page.within(text, cut_markdown)


def _text(page: _Page) -> str:
    options = MarkdownOptions(main=page.request.main)
    text, _ = plain_text_of(page.markup, page.hrefs, options)
    return page.within(text, cut)


def _html(page: _Page) -> str:
    made, is_cut = safe_html(
        page.markup, page.hrefs, page.request.max_chars, main=page.request.main
    )
    page.is_cut |= is_cut
    return made


def _links(page: _Page) -> list[dict[str, str]]:
    found = page_links(page.root, page.hrefs, len(page.markup))
    return [{"url": url, "text": text} for url, text in found]


def _metadata(page: _Page) -> dict[str, Any]:
    return metadata(page.root, page.request.url)


_OF_HTML: Mapping[str, Callable[[_Page], Any]] = {
    "markdown": _markdown,
    "text": _text,
    "html": _html,
    "links": _links,
    "metadata": _metadata,
}
