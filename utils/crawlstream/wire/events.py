"""Events as JSON: crawls that begin and end, pages that fail."""

from __future__ import annotations

from typing import Any

from crawlstream.model.event import CrawlEvent, Event, PageFailed
from crawlstream.wire import jsontext

_COUNTERS = ("admitted", "done", "failed", "redirected", "stopped", "expired")
"""What an ending always counts: the first is the sum of the others."""


def encode(event: Event) -> bytes:
    """An event as UTF-8 JSON."""
    record: dict[str, Any] = {
        "event": "page_failed" if isinstance(event, PageFailed) else event.event,
        "appid": event.crawl.appid,
        "crawlid": event.crawl.crawlid,
        "spiderid": event.crawl.spiderid,
        "run": event.run,
        "server_time": event.server_time,
    }
    more = _page(event) if isinstance(event, PageFailed) else _ending(event)
    return jsontext.dumps(record | more)


def _page(event: PageFailed) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": event.id,
        "url": event.url,
        "reason": event.reason,
        "attempts": event.attempts,
        "depth": event.depth,
        "parent": event.parent_url,
    }
    more = {"uuid": event.uuid, "detail": event.detail}
    return record | {name: text for name, text in more.items() if text}


def _ending(event: CrawlEvent) -> dict[str, Any]:
    """The ledger of the run; nothing for its beginning."""
    if event.event == "crawl_started":
        return {}
    counters: dict[str, Any] = dict.fromkeys(_COUNTERS, 0) | dict(event.counters)
    counters["filtered"] = dict(event.reasons.get("filtered", {}))
    counters["done_by_status"] = dict(event.reasons.get("done", {}))
    counters["failed_by_reason"] = dict(event.reasons.get("failed", {}))
    return {"started": int(event.started_at), "counters": counters}
