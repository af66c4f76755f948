"""A row in the making, and how a stage ends a page's way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from crawlstream.errors import CrawlstreamError
from pipeline_service.stages.page import Page

STAGE_FAILED = "stage_failed"
INVALID = "invalid"
TOO_LARGE = "too_large"


@dataclass(slots=True)
class Draft:
    """A row in the making: the page itself, or one item of it."""

    fields: dict[str, Any] = field(default_factory=dict)
    """Fields that stages have made."""
    number: int | None = None
    """Number of an item, from 0 on, in the order of the page; None: the page itself."""
    errors: Sequence[str] = ()
    """Errors of invalid fields, as sentences."""


class Filtered(CrawlstreamError):
    """The page is not wanted; the text is the reason, as a code."""


class PageRefused(CrawlstreamError):
    """The page cannot be delivered."""

    def __init__(self, reason: str, stage: str, errors: Sequence[str]) -> None:
        super().__init__("; ".join(errors))
        self.reason = reason
        """A code."""
        self.stage = stage
        self.errors = errors
        """Sentences."""


class ReadyStage(Protocol):
    """Stage of a pipeline, ready to run."""

    def run(self, page: Page, drafts: list[Draft]) -> list[Draft]:
        """Return the rows that the stage makes of the rows of a page; Filtered, Refused."""
