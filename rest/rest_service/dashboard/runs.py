"""Screens about the runs of a crawl: all of them, and two beside each other."""

from __future__ import annotations

from fastapi import APIRouter, Response

from rest_service.dashboard.render import SHOWN, render
from rest_service.service import TheClient, TheCrawl, TheService
from rest_service.v2.runs import ThePair, comparison, history

_TITLES = (
    ("new", "New pages"),
    ("gone", "Gone pages"),
    ("status", "Other status"),
    ("content", "Other content"),
)

router = APIRouter(prefix="/ui", include_in_schema=False)


@router.get("/crawl/runs")
async def runs(service: TheService, client: TheClient, key: TheCrawl) -> Response:
    """All runs of a crawl, and which two to compare."""
    found = await history(service, client, key)
    return render("runs.html", "/ui/crawls", client=client, key=key, history=found)


@router.get("/crawl/compare")
async def compared(service: TheService, client: TheClient, pair: ThePair) -> Response:
    """What changed from one run to another."""
    found = await comparison(service, client, pair, listed=SHOWN)
    return render(
        "compare.html", "/ui/crawls", client=client, key=pair.key, found=found, titles=_TITLES
    )
