"""Query parameters of how pages are answered."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from rest_service.http.envelope import RequestRefused
from rest_service.v2.scrapes.scrape_order import MOST_CHARS, PageShape

Named = Annotated[str, Query(max_length=100, description="Formats, separated by commas.")]
MaxChars = Annotated[int, Query(ge=1000, le=MOST_CHARS)]

_FORMATS = {"markdown", "text", "html", "links", "metadata", "raw", "screenshot", "json"}


def shape_of(formats: str, *, main: bool, max_chars: int) -> PageShape:
    """Return how a page is answered; RequestRefused (422) names an unknown format."""
    named = [name.strip() for name in formats.split(",")]
    if unknown := sorted(set(named) - _FORMATS):
        known = ", ".join(sorted(_FORMATS - {"json"}))
        sentence = f"formats: unknown: {unknown[0][:20]!r}; known: {known}."
        raise RequestRefused(422, sentence, code="invalid")
    return PageShape.of(named, main=main, max_chars=max_chars)
