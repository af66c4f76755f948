"""Crawled pages, made harmless: a preview that a browser can show, and their text.

A preview is a new document with the parts of the page that an allow-list of elements and attributes
permits. None of its attributes can contain a URL, a style or a script, so the browser has nothing
to request, to connect to ahead, or to run; its headers and the frame forbid all of it again.

lxml parses first, whatever the result, and without large numbers of attributes: it takes linear
time and goes 256 elements deep.
nh3 runs last. It parses as browsers do, so that both see the same elements, and takes quadratic
time for deep nesting: alone, it took minutes for 500 KB of ``<div>``.
"""

from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html import escape, unescape

import nh3
from lxml import etree

from crawlstream_extract.markup import parsable
from crawlstream_extract.safe_html import BLOCKS, CELLS, INLINE

LONGEST = 500_000
"""Characters of a page that are processed."""

_ATTRIBUTES = {
    "*": {"dir", "lang"},
    "img": {"alt"},
    "ol": {"reversed", "start", "type"},
    "td": {"colspan", "rowspan"},
    "th": {"colspan", "rowspan"},
}
_NO_TEXT = frozenset({"script", "style", "title", "noscript", "template"})
"""Elements whose content is not text for people."""

_CLEANER = nh3.Cleaner(
    tags=set(BLOCKS | INLINE | CELLS),
    attributes=_ATTRIBUTES,
    clean_content_tags=set(_NO_TEXT),
    url_schemes=set(),
    link_rel=None,
    strip_comments=True,
)

_STYLE = (
    "body{margin:1rem;font:15px/1.5 system-ui,sans-serif;color:#1b1f24;background:#fff;"
    "overflow-wrap:anywhere}a{color:#0550ae;text-decoration:underline}"
    "table{border-collapse:collapse}td,th{padding:.125rem .5rem;text-align:left;vertical-align:top}"
    "img{border:1px dashed #57606a;color:#57606a;padding:0 .25rem}pre{white-space:pre-wrap}"
)
_STYLE_HASH = b64encode(sha256(_STYLE.encode()).digest()).decode()

PREVIEW_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'self'; sandbox"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-DNS-Prefetch-Control": "off",
}
"""Headers of the preview: nothing is loaded or run, and only crawlstream's screens may frame it."""

_TAG = re.compile(r"<(/?)([a-z0-9]+)[^>]*>")
_SPACES = re.compile(r"[^\S\n]+")
_LINES = re.compile(r" ?\n[ \n]*")


def preview(html: str, title: str) -> str:
    """Return a document with the harmless parts of a page; ``title`` is any text."""
    return (
        '<!doctype html><html lang="und"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style></head>"
        f"<body><main>{_clean(html)}</main></body></html>"
    )


def readable(html: str) -> str:
    """Return the text of a page, a line for each of its blocks."""
    # A "<" in the text is now "&lt;": every "<" begins a tag.
    text = _TAG.sub(_gap, _SPACES.sub(" ", _clean(html).replace("\n", " ")))
    return _LINES.sub("\n", _SPACES.sub(" ", unescape(text))).strip()


def _gap(tag: re.Match[str]) -> str:
    if tag[2] in BLOCKS:
        return "\n"
    return "\t" if tag[2] in CELLS else ""


def _clean(html: str) -> str:
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    text, _is_whole = parsable(html[:LONGEST])
    try:
        tree = etree.fromstring(text.encode("utf-8", "replace"), parser)
    except etree.ParserError:
        tree = None
    if tree is None:
        return ""
    return _CLEANER.clean(etree.tostring(tree, encoding="unicode", method="html"))
