"""Pages that a browser makes: what may be asked of it, and who fetches such pages.

Crawlers with a browser are apart from the others: they lease from a *lane* of their own, which to
the frontier is a spider like any other. So pages that need a browser wait in the same crawl as the
rest, with the same duplicate filter and ledger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_ENDING: Final = "+render"

TYPES: Final = ("document", "script", "stylesheet", "fetch", "image", "media", "font")
"""What a page may ask for beside itself: ``document`` are those of its frames, ``fetch`` is also
XMLHttpRequest."""
USUAL_TYPES: Final = ("document", "script", "stylesheet", "fetch")
"""Those that are needed to see the text of a page."""


def lane_of(spider: str, *, renders: bool) -> str:
    """Under which name the pages of a spider wait, for its crawlers with a browser or without."""
    return spider + _ENDING if renders else spider


def is_lane(name: str) -> bool:
    """Whether a name is that of crawlers with a browser; no spider may be called so."""
    return name.endswith(_ENDING)


def spider_of(lane: str) -> str:
    """The spider whose pages wait under a name."""
    return lane.removesuffix(_ENDING)


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderOptions:
    """When a page is ready, and what it may ask for."""

    wait_for: str | None = None
    """CSS selector of an element; None: the page is ready when it is quiet."""
    wait_ms: int = 0
    """How long to wait then."""
    types: tuple[str, ...] | None = None
    """Of :data:`TYPES`; None: those of the operator."""

    @classmethod
    def of(cls, wish: Mapping[str, Any] | None) -> RenderOptions:
        """What a profile has as its ``render``."""
        values = dict(wish or {})
        if values.get("types") is not None:
            values["types"] = tuple(values["types"])
        return cls(**values)


def render_wish(value: bool | Mapping[str, Any] | None) -> Mapping[str, Any] | None:  # noqa: FBT001  as it stands in JSON
    """What a crawl request says of ``render``, in one spelling; None: no browser is needed."""
    if value is None or value is False:
        return None
    given = {} if value is True else value
    return {name: each for name, each in sorted(given.items()) if each not in (None, 0)}
