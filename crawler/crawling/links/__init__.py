"""Links of a page: found, filtered, and packed for the frontier."""

from __future__ import annotations

import warnings
from typing import Any


def __getattr__(name: str) -> Any:
    """``links_of`` as older spiders import it."""
    if name != "links_of":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from crawling.links.extract import links_of  # noqa: PLC0415  not before it is asked for

    warnings.warn(
        "import links_of from crawling, not from crawling.links", DeprecationWarning, stacklevel=2
    )
    return links_of
