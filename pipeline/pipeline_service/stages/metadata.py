"""The stage ``page``: what an HTML page says of itself in its head, and as JSON-LD."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import urljoin

from crawlstream.wire import jsontext
from pipeline_service.stages.draft import Draft
from pipeline_service.stages.page import Page
from pipeline_service.stages.plain import plain

_LONGEST = 2_000
"""Characters of a text."""
_MOST_PROPERTIES = 100
_MOST_BLOCKS = 50
_BLOCK_BYTES = 256 * 1024

FIELDS = ("title", "description", "canonical", "lang", "robots", "opengraph", "jsonld")


class Metadata:
    """Adds ``title``, ``description``, ``canonical``, ``lang``, ``robots``, OpenGraph, JSON-LD."""

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """A field that an earlier stage has made stays as it is."""
        made = metadata(page) if page.is_html else dict.fromkeys(FIELDS)
        for draft in drafts:
            draft.fields = {**made, **draft.fields}
        return drafts


def metadata(page: Page) -> dict[str, Any]:
    """Each field, None where the page does not have it."""
    root = page.select.root
    named = _metas(root, "name")
    graph = {name: text for name, text in _metas(root, "property").items() if name[:3] == "og:"}
    return {
        "title": _first(root.xpath("string((//head/title | //title)[1])")),
        "description": named.get("description"),
        "canonical": _canonical(page, root),
        "lang": _first(root.get("lang") or root.get("{http://www.w3.org/XML/1998/namespace}lang")),
        "robots": named.get("robots"),
        "opengraph": {name[3:]: graph[name] for name in list(graph)[:_MOST_PROPERTIES]} or None,
        "jsonld": list(_blocks(root)) or None,
    }


def _metas(root: Any, attribute: str) -> dict[str, str]:
    """The content of ``<meta>`` by name in lower case; the first of a name counts."""
    found: dict[str, str] = {}
    for meta in root.iter("meta"):
        name = (meta.get(attribute) or "").strip().lower()
        if name and name not in found and (text := _first(meta.get("content"))):
            found[name] = text
    return found


def _canonical(page: Page, root: Any) -> str | None:
    for link in root.iter("link"):
        if "canonical" in (link.get("rel") or "").lower().split():
            target: str = (link.get("href") or "").strip()
            try:
                return urljoin(page.response_url, target)[:_LONGEST]
            except ValueError:
                return None
    return None


def _blocks(root: Any) -> Iterator[Any]:
    """The values of the blocks that are JSON, flat: a list in a block is its entries."""
    blocks = root.xpath('//script[@type="application/ld+json"]')[:_MOST_BLOCKS]
    for block in blocks:
        raw = (block.text or "").strip().encode("utf-8", "replace")
        if not raw or len(raw) > _BLOCK_BYTES:
            continue
        try:
            value = plain(jsontext.loads(raw), "jsonld")
        except (ValueError, TypeError, RecursionError):
            continue
        yield from value if isinstance(value, list) else (value,)


def _first(text: str | None) -> str | None:
    """In one line, cut; None if nothing is left."""
    return " ".join((text or "").split())[:_LONGEST] or None
