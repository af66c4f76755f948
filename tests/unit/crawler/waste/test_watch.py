"""The waste guard of a process."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

from prometheus_client import REGISTRY

from crawling.page.guard_notes import GuardNotes
from crawling.waste.watch import WasteWatch
from support.pages import page_at


def _unused(*_args: Any) -> Any:
    raise AssertionError("a page that ends asks nobody")


def _links(decision: str) -> float:
    labels = {"decision": decision}
    return REGISTRY.get_sample_value("crawlstream_guard_links_total", labels) or 0.0


def test_links_that_were_held_back_are_counted_by_decision() -> None:
    """Counts held-back links by decision when their page is completed."""
    decisions = ("guard_parameter", "guard_host", "last")
    before = [_links(each) for each in decisions]
    page = page_at()
    page.status, page.is_watched = 200, True
    page.guard = GuardNotes(Counter(guard_parameter=3, guard_host=1), last=2)
    WasteWatch(_unused, _unused, _unused, cast("Any", None)).note(page)
    found = [_links(each) for each in decisions]
    assert [now - then for now, then in zip(found, before, strict=True)] == [3, 1, 2]
