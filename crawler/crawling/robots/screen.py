"""Screening of pages before their requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from crawling.page.page import Page


class Screening(Protocol):
    """Decides which pages are fetched: by robots.txt alone, or with the files of rights."""

    def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
        """Let pages through that may be fetched, now or later; end the others."""
        ...
