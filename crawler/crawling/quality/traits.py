"""Traits of a page by which it is compared with other pages of its site."""

from __future__ import annotations

from typing import NamedTuple

from crawling.quality.page_text import PageText


class Traits(NamedTuple):
    """Text and canonical URL of a page."""

    text: PageText | None = None
    """None: the page is not HTML, or has no visible text."""
    canonical: str | None = None
    """Canonical URL that it names, if that is not its own."""

    @property
    def text_signature(self) -> str | None:
        """Return the form of results, with the version of the method: ``t1:`` and 16 hex digits."""
        return f"t1:{self.text.signature:016x}" if self.text else None


NO_TRAITS = Traits()
