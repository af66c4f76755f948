"""Rendered pages: the options of a request, and the lane of the crawlers that fetch them.

Crawlers with a browser lease from a *lane* of their own, which the frontier treats like any other
spider. So pages that need a browser wait in the same crawl as the rest, with the same duplicate
filter and ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ENDING: Final = "+render"

TYPES: Final = ("document", "script", "stylesheet", "fetch", "image", "media", "font")
"""Types of further requests of a page: ``document`` are its frames, ``fetch`` includes
XMLHttpRequest."""
USUAL_TYPES: Final = ("document", "script", "stylesheet", "fetch")
"""Types that are needed to see the text of a page."""
VERBS: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("scroll", "click", "wait", "press", "hover"), ()),
    "fill": ("text",),
    "select": ("value",),
}
"""Actions in a page, each with the fields that it needs; ``click`` may have ``times``."""


def lane_of(spider: str, *, renders: bool) -> str:
    """Return the name under which pages of a spider wait for crawlers with or without a browser."""
    return spider + _ENDING if renders else spider


def lanes_of(spider: str, render: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names under which pages of a crawl wait; the first is that of its seeds."""
    if render is not None and render.get("auto"):
        return (spider, spider + _ENDING)
    return (lane_of(spider, renders=render is not None),)


def is_lane(name: str) -> bool:
    """Return whether a name is a lane of crawlers with a browser; spiders must not be named so."""
    return name.endswith(_ENDING)


def spider_of(lane: str) -> str:
    """Return the spider whose pages wait under a name."""
    return lane.removesuffix(_ENDING)


def render_wish(value: bool | str | Mapping[str, Any] | None) -> Mapping[str, Any] | None:  # noqa: FBT001  as it stands in JSON
    """Return the ``render`` of a crawl request in normal form; None: no browser is needed."""
    if value is None or value is False:
        return None
    given: Any = {} if value is True else {value: True} if isinstance(value, str) else value
    # No types are none; no actions are as if there were no list.
    kept = (each for each in sorted(given.items()) if each != ("actions", []))
    return {name: each for name, each in kept if each not in (None, 0)}
