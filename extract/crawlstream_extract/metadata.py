"""Metadata of an HTML page: what its head says of it, and its JSON-LD."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

from crawlstream.model.web.address import resolved
from crawlstream.wire import jsontext
from crawlstream_extract.plain import plain

_LONGEST = 2_000
"""Characters of a text."""
_MOST_PROPERTIES = 100
_MOST_BLOCKS = 50
_BLOCK_BYTES = 256 * 1024
_JSON_LD = "application/ld+json"
_CDATA = re.compile(r"<!\[CDATA\[|\]\]>")
_TEXT = re.compile(r'"(?:[^"\\]|\\.?)*+"?', re.DOTALL)
"""A text of JSON, with all that people put into one."""
_CONTROL = re.compile(r"[\x00-\x1f]")

FIELDS = ("title", "description", "canonical", "lang", "robots", "opengraph", "jsonld")
"""Fields of the metadata."""


def metadata(root: Any, url: str) -> dict[str, Any]:
    """Return each of FIELDS of the tree of a page, None where the page does not have it.

    ``url`` is the address of the page.
    """
    named = _metas(root, "name")
    graph = {name: text for name, text in _metas(root, "property").items() if name[:3] == "og:"}
    return {
        "title": _first(root.xpath("string((//title[not(ancestor::svg)])[1])")),
        "description": named.get("description"),
        "canonical": _canonical(url, root),
        "lang": _first(root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang")),
        "robots": named.get("robots"),
        "opengraph": {name[3:]: graph[name] for name in list(graph)[:_MOST_PROPERTIES]} or None,
        "jsonld": list(_blocks(root)) or None,
    }


def _metas(root: Any, attribute: str) -> dict[str, str]:
    """Return the content of each ``<meta>`` name in lower case; the first of a name counts."""
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = (meta.get(attribute) or "").strip().lower()
        if name and name not in found and (text := _first(meta.get("content"))):
            found[name] = text
    return found


def _canonical(base: str, root: Any) -> str | None:
    """Return the first canonical URL that is one, by the document's base; an empty one is none."""
    if bases := root.xpath("(//base[@href])[1]"):
        base = resolved(base, bases[0].get("href")) or base
    for link in root.iter("link"):
        if "canonical" in (link.get("rel") or "").lower().split():
            href = (link.get("href") or "").strip()
            if href and (target := resolved(base, href)):
                return target[:_LONGEST]
    return None


def _blocks(root: Any) -> Iterator[Any]:
    """The values of the blocks that are JSON, flat: a list in a block is its entries."""
    scripts = (each for each in root.iter("script") if _is_json_ld(each.get("type")))
    for script in islice(scripts, _MOST_BLOCKS):
        text = (script.text or "").strip()
        if not text or len(text.encode("utf-8", "replace")) > _BLOCK_BYTES:
            continue
        try:
            value = plain(_value_of(text), "jsonld")
        except (ValueError, TypeError, RecursionError):
            continue
        yield from value if isinstance(value, list) else (value,)


def _is_json_ld(kind: str | None) -> bool:
    """Return whether a script is JSON-LD: a media type in any case, with parameters or without."""
    return (kind or "").partition(";")[0].strip().lower() == _JSON_LD


def _value_of(text: str) -> Any:
    """Return the value of a block, also where people have wrapped it or broken its lines.

    In ``<!-- -->`` or CDATA, in comments of JavaScript, with a semicolon behind it, or with line
    ends within a text.
    """
    try:
        return jsontext.loads(text.encode("utf-8", "replace"))
    except ValueError:
        text = _CDATA.sub("", text)
    begin = min((at for at in map(text.find, "{[") if at >= 0), default=len(text))
    inner = text[begin : max(map(text.rfind, "}]")) + 1]
    return jsontext.loads(_TEXT.sub(_in_one_line, inner).encode("utf-8", "replace"))


def _in_one_line(text: re.Match[str]) -> str:
    return _CONTROL.sub(lambda one: f"\\u{ord(one[0]):04x}", text[0])


def _first(text: str | None) -> str | None:
    """In one line, cut; None if nothing is left."""
    return " ".join((text or "").split())[:_LONGEST] or None
