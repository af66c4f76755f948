"""JavaScript that is run in pages, in a world that their own scripts do not see."""

from __future__ import annotations

import json
from typing import Final

DOM: Final = """(() => {
  const root = document.documentElement;
  if (!root) return "";
  const kind = document.doctype ? "<!DOCTYPE " + document.doctype.name + ">" : "";
  const text = root.outerHTML;
  return text.length > %d ? "\\0" : kind + text;
})()"""
"""The document as text; a zero character where that is longer than ``%d`` characters."""

_WAIT: Final = """new Promise(done => {
  const look = () => document.querySelector(%s) !== null && (done(true), true);
  if (!look()) {
    const observer = new MutationObserver(() => look() && observer.disconnect());
    observer.observe(document, {childList: true, subtree: true, attributes: true});
  }
})"""


_ELEMENT: Final = """(() => {
  let found;
  try { found = document.querySelector(%s); } catch { return null; }
  if (!found) return false;
  found.scrollIntoView({behavior: "instant", block: "center", inline: "center"});
  const box = found.getBoundingClientRect();
  return [box.x + scrollX, box.y + scrollY, box.width, box.height];
})()"""


def element_at(selector: str) -> str:
    """Return the place and size of the first element that matches, in pixels of the page.

    ``false``: none matches; ``null``: the selector is invalid.
    """
    return _ELEMENT % json.dumps(selector)


def wait_for(selector: str) -> str:
    """Return a promise that resolves when an element matches; it fails for an invalid selector."""
    return _WAIT % json.dumps(selector)
