"""A page as Markdown without active content, or as plain text.

The engine loses some pages without an error: elements in very many others, cells that never end. So
its text is compared with the words that a linear scan finds between the tags. If nearly all of them
are missing, the whole page is converted, and if they are missing then, too, the scan's text is
returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from html_to_markdown import (
    ConversionError,
    ConversionOptions,
    PreprocessingOptions,
    convert,
)

from crawlstream_extract.hrefs import Hrefs
from crawlstream_extract.scan import count_words, scanned
from crawlstream_extract.tidy import InertTexts, TidyOptions, tidied

ENGINE, SCAN = "html-to-markdown", "scan"

Links = Literal["inline", "reference", "none"]

_FEW_WORDS = 20
"""Words of a page that may be lost."""
_LEAST_SHARE = 0.1
"""Part of the words of a page that its text has at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkdownOptions:
    """Contents of the Markdown of a page."""

    main: bool = True
    """Only the main content."""
    links: Links = "inline"
    images: bool = False
    hidden: bool = False
    """Also what a reader does not see."""


def markdown_of(markup: str, hrefs: Hrefs, options: MarkdownOptions) -> tuple[str, str]:
    """Return Markdown of a page, and what has made it: ENGINE or SCAN.

    ``markup`` is what `markup.parsable` returns. Addresses are absolute.
    """
    text = _found(markup, hrefs, options, "markdown")
    return (InertTexts().of(scanned(markup)), SCAN) if text is None else (text, ENGINE)


def plain_text_of(markup: str, hrefs: Hrefs, options: MarkdownOptions) -> tuple[str, str]:
    """Return the text of a page, and what has made it; for a reader, not for Markdown."""
    text = _found(markup, hrefs, replace(options, links="none", images=False), "plain")
    return (scanned(markup), SCAN) if text is None else (text, ENGINE)


def _found(markup: str, hrefs: Hrefs, options: MarkdownOptions, output: str) -> str | None:
    """Return the text of the main content, or of the page; None if nearly all words are missing."""
    words = count_words(markup)
    for each in (options, replace(options, main=False)) if options.main else (options,):
        text = _converted(markup, hrefs, each, output)
        if words < _FEW_WORDS or len(text.split()) >= words * _LEAST_SHARE:
            return text
    return None


def _converted(markup: str, hrefs: Hrefs, options: MarkdownOptions, output: str) -> str:
    tidy = TidyOptions(
        main=options.main,
        hidden=options.hidden,
        links=options.links != "none",
        images=options.images,
        is_inert=output == "markdown",
    )
    links = "reference" if options.links == "reference" else "inline"
    asked = _options(output, links, main=options.main, images=options.images)
    try:
        return (convert(tidied(markup, hrefs, tidy), asked).content or "").strip()
    except ConversionError:
        return ""


@cache
def _options(output: str, links: str, *, main: bool, images: bool) -> ConversionOptions:
    """Return options of the engine; tables are not padded, which could multiply their size."""
    return ConversionOptions(
        output_format=output,
        link_style=links,
        skip_images=not images,
        preprocessing=PreprocessingOptions(
            enabled=main, preset="aggressive", remove_navigation=main, remove_forms=False
        ),
        extract_metadata=False,
        autolinks=False,
        compact_tables=True,
        expand_abbreviations=False,
        include_blockquote_citations=False,
        bullets="-",
    )
