"""Rendered pages: the options of a request, and the lane of the crawlers that fetch them.

Crawlers with a browser lease from a *lane* of their own, which the frontier treats like any other
spider. So pages that need a browser wait in the same crawl as the rest, with the same duplicate
filter and ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_ENDING: Final = "+render"

TYPES: Final = ("document", "script", "stylesheet", "fetch", "image", "media", "font")
"""Types of further requests of a page: ``document`` are its frames, ``fetch`` includes
XMLHttpRequest."""
USUAL_TYPES: Final = ("document", "script", "stylesheet", "fetch")
"""Types that are needed to see the text of a page."""


def lane_of(spider: str, *, renders: bool) -> str:
    """Return the name under which pages of a spider wait for crawlers with or without a browser."""
    return spider + _ENDING if renders else spider


def is_lane(name: str) -> bool:
    """Return whether a name is a lane of crawlers with a browser; spiders must not be named so."""
    return name.endswith(_ENDING)


def spider_of(lane: str) -> str:
    """Return the spider whose pages wait under a name."""
    return lane.removesuffix(_ENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """Options that define when a page is ready, what it may request, and what is taken of it."""

    wait_for: str | None = None
    """CSS selector of an element; None: the page is ready when it is quiet."""
    wait_ms: int = 0
    """Milliseconds to wait after that."""
    types: tuple[str, ...] | None = None
    """Allowed types, from :data:`TYPES`; None: those that the operator allows."""
    screenshot: str | None = None
    """Part of the page: ``viewport``, ``full``, or ``element:`` and a CSS selector."""

    @classmethod
    def of(cls, wish: Mapping[str, Any] | None) -> RenderOptions:
        """Return the options for the ``render`` of a profile."""
        values = dict(wish or {})
        if values.get("types") is not None:
            values["types"] = tuple(values["types"])
        return cls(**values)


def render_wish(value: bool | Mapping[str, Any] | None) -> Mapping[str, Any] | None:  # noqa: FBT001  as it stands in JSON
    """Return the ``render`` of a crawl request in normal form; None: no browser is needed."""
    if value is None or value is False:
        return None
    given = {} if value is True else value
    return {name: each for name, each in sorted(given.items()) if each not in (None, 0)}
