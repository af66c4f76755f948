"""The old name of :mod:`crawling.links.children`, for spiders that import it from here."""

from __future__ import annotations

import warnings

from crawling.links.children import Outlinks

__all__ = ["Outlinks"]

warnings.warn(
    "import Outlinks from crawling, not from crawling.outlinks", DeprecationWarning, stacklevel=2
)
