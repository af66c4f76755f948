"""Traits of a page by which it is compared with other pages of its site."""

from __future__ import annotations

from typing import NamedTuple


class Traits(NamedTuple):
    """Text and canonical URL of a page."""

    signature: int | None = None
    """64 bits for its text; None: the page is not HTML, or has no visible text."""
    canonical: str | None = None
    """Canonical URL that it names, if that is not its own."""

    @property
    def text(self) -> int | None:
        """Return the 32 bits by which a sketch knows the text."""
        return None if self.signature is None else self.signature >> 32

    @property
    def text_signature(self) -> str | None:
        """Return the form of results, with the version of the method: ``t1:`` and 16 hex digits."""
        return None if self.signature is None else f"t1:{self.signature:016x}"


NO_TRAITS = Traits()
