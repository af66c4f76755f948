"""``get --actions``: what could not be done in a page."""

from __future__ import annotations

from crawlstream.model.delivered import Delivered

_WHY_NOT = {
    "bad_selector": "the CSS selector is not valid",
    "bad_value": "the field does not accept the text, or has no such option",
    "covered": "another element is in front of it",
    "failed": "the page has replaced its document",
    "led_away": "it leads to another page, to which the browser does not go",
    "no_element": "no visible element matches",
    "timeout": "no element came, or the page kept the browser busy",
    "wrong_element": "the element is not a field that can be filled, or no list of options",
}
"""Explanations of the ``error`` in a result."""


def unfinished(page: Delivered) -> str:
    """Return a sentence about the action of a page that could not be done; "" if all were done."""
    told = page.extra.get("render")
    done = told.get("actions") if isinstance(told, dict) else None
    if not done or "error" not in done[-1]:
        return ""
    effect = done[-1]
    verb, error = next(iter(effect)), effect["error"]
    why = _WHY_NOT.get(error, "see docs/rendering.md")
    return f"action {len(done)}, {verb} {effect[verb]}: {error}: {why}"
