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


STILL: Final = """new Promise(done => {
  let timer;
  const end = () => { observer.disconnect(); done(true); };
  const again = () => { clearTimeout(timer); timer = setTimeout(end, 500); };
  const observer = new MutationObserver(again);
  observer.observe(document, {childList: true, subtree: true, attributes: true,
    characterData: true});
  setTimeout(end, 2000);
  again();
})"""
"""A promise that resolves when the document has not changed for half a second, or after 2 s."""

_BOX: Final = """(() => {
  const root = document.scrollingElement || document.documentElement;
  if (root.scrollHeight > root.clientHeight) return root;
  let at = document.elementFromPoint(innerWidth / 2, innerHeight / 2);
  for (; at; at = at.parentElement) {
    const scrolls = /auto|scroll/.test(getComputedStyle(at).overflowY);
    if (scrolls && at.scrollHeight > at.clientHeight) return at;
  }
  return root;
})()"""
"""The element that a wheel would scroll: the page, or what is in the middle of the window."""

SCROLL: Final = f"""(() => {{
  const box = {_BOX}, height = box.scrollHeight;
  box.scrollTo({{top: height, behavior: "instant"}});
  return height;
}})()"""
"""Scrolls to the end; its value is the height that could be scrolled."""

_GROWN: Final = f"""new Promise(done => {{
  const box = {_BOX}, began = performance.now();
  let changed = began, timer;
  const observer = new MutationObserver(() => {{ changed = performance.now(); }});
  observer.observe(document, {{childList: true, subtree: true, attributes: true,
    characterData: true}});
  const look = () => {{
    const now = performance.now(), height = box.scrollHeight;
    if (now - changed < (height > %s ? 100 : 500) && now - began < 2000) return;
    clearInterval(timer);
    observer.disconnect();
    done(height);
  }};
  timer = setInterval(look, 50);
}})"""

_FIELD: Final = """(() => {
  let found;
  try { found = document.querySelector(%s); } catch { return "bad_selector"; }
  if (!found) return "no_element";
  const given = %s, fire = type => found.dispatchEvent(new Event(type, {bubbles: true}));
  %s
  fire("input");
  fire("change");
  return true;
})()"""

_FILL: Final = """
  if (found.matches(":disabled, [readonly]")) return "wrong_element";
  if (/^(INPUT|TEXTAREA)$/.test(found.tagName)) {
    if (/^(checkbox|radio|file|image|button|submit|reset|hidden)$/.test(found.type))
      return "wrong_element";
    found.focus();
    found.value = given;
    if (found.value !== given) return "bad_value";
  } else if (found.isContentEditable) {
    found.focus();
    getSelection().selectAllChildren(found);
    document.execCommand(given ? "insertText" : "delete", false, given);
  } else return "wrong_element";"""

_SELECT: Final = """
  if (found.tagName !== "SELECT" || found.disabled) return "wrong_element";
  const option = [...found.options].find(each => !each.disabled
    && (each.value === given || each.label.trim() === given));
  if (!option) return "bad_value";
  found.focus();
  option.selected = true;"""

_POINT: Final = """(() => {
  let all;
  try { all = document.querySelectorAll(%s); } catch { return "bad_selector"; }
  for (const each of all) {
    if (each.matches(":disabled") || !each.checkVisibility({visibilityProperty: true})) continue;
    each.scrollIntoView({behavior: "instant", block: "center", inline: "center"});
    const box = [...each.getClientRects()].find(one => one.width && one.height);
    if (!box) continue;
    const x = box.x + box.width / 2, y = box.y + box.height / 2;
    return each.contains(document.elementFromPoint(x, y)) ? [x, y] : "covered";
  }
  return "no_element";
})()"""


def grown(height: float) -> str:
    """Return a promise of the height when the page is still: at once if it has grown beyond one."""
    return _GROWN % json.dumps(height)


def fill(selector: str, text: str) -> str:
    """Return a script that enters a text in a field; its value is true, or an error."""
    return _FIELD % (json.dumps(selector), json.dumps(text), _FILL)


def select(selector: str, option: str) -> str:
    """Return a script that selects an option by its value or label; true, or an error."""
    return _FIELD % (json.dumps(selector), json.dumps(option), _SELECT)


def point_in(selector: str) -> str:
    """Return the middle of the first visible element that matches, in the window; or an error."""
    return _POINT % json.dumps(selector)


def element_at(selector: str) -> str:
    """Return the place and size of the first element that matches, in pixels of the page.

    ``false``: none matches; ``null``: the selector is invalid.
    """
    return _ELEMENT % json.dumps(selector)


def wait_for(selector: str) -> str:
    """Return a promise that resolves when an element matches; it fails for an invalid selector."""
    return _WAIT % json.dumps(selector)
