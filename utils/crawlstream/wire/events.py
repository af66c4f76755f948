"""Encode and decode events as JSON: crawls that begin and end, pages that fail."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import orjson

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import (
    CrawlEvent,
    Event,
    GuardVerdict,
    PageFailed,
    PagesSkipped,
    PaymentRequired,
    RunDelivered,
)
from crawlstream.model.recurring.schedule import ScheduleEvent
from crawlstream.model.statuses import PAGE_ENDS
from crawlstream.model.web.refused_families import as_records, counter_of, refused_families
from crawlstream.wire import jsontext, views

_COUNTERS = ("admitted", *PAGE_ENDS)
"""Counters that every ending has: the first is the sum of the others."""
_LAST = 253_402_300_799
"""Epoch seconds of the end of the year 9999, the last time that Python knows."""
_OF_CRAWLS = frozenset({"crawl_started", "crawl_finished", "crawl_stopped", "crawl_expired"})


def encode(event: Event) -> bytes:
    """Return an event as UTF-8 JSON."""
    record: dict[str, Any] = {
        "event": _name(event),
        "appid": event.crawl.appid,
        "crawlid": event.crawl.crawlid,
        "spiderid": event.crawl.spiderid,
        "run": event.run,
        "server_time": event.server_time,
    }
    return jsontext.dumps(record | _more(event))


def _name(event: Event) -> str:
    if isinstance(event, CrawlEvent):
        return event.event
    return _NAME_OF[type(event)]


_NAME_OF: Mapping[type, str] = {
    PageFailed: "page_failed",
    PagesSkipped: "pages_skipped",
    PaymentRequired: "payment_required",
    RunDelivered: "run_delivered",
}


def _more(event: Event) -> dict[str, Any]:
    if isinstance(event, RunDelivered):
        return _account(event)
    if isinstance(event, CrawlEvent):
        more = _ending(event)
    elif isinstance(event, PagesSkipped):
        more = _skipped(event)
    else:
        more = _page(event) if isinstance(event, PageFailed) else _priced(event)
    return more | ({"occasion": asdict(event.firing)} if event.firing else {})


def _account(event: RunDelivered) -> dict[str, Any]:
    return {
        "pipeline": event.pipeline,
        "edition": event.edition,
        "complete": event.is_complete,
        "done": event.done,
        "read": event.read,
        "repeats": event.repeats,
        "silent": event.silent,
        "delivered": event.delivered,
        "filtered": dict(event.filtered),
        "undelivered": event.undelivered,
        **({"dropped": dict(event.dropped)} if event.dropped else {}),
        **({"reserved": event.reserved} if event.reserved else {}),
        **event.archived,
        **event.quality,
    }


def decode_delivery(raw: bytes, pipeline: str | None = None) -> Mapping[str, Any] | None:
    """Return the account of a run by a pipeline (None: by any), with all fields; else None."""
    if b'"run_delivered"' not in raw:
        return None
    try:
        value = orjson.loads(raw)
        is_ours = value["event"] == "run_delivered" and pipeline in {None, value["pipeline"]}
        is_whole = all(isinstance(value[name], int) for name in _DELIVERED)
        is_named = all(isinstance(value[name], str) for name in _NAMES)
    except (KeyError, TypeError, ValueError):
        return None
    return value if is_ours and is_whole and is_named else None


_NAMES = ("pipeline", "appid", "crawlid", "spiderid")
_DELIVERED = (
    *("run", "server_time", "edition", "complete", "done", "read", "repeats", "delivered"),
    "undelivered",
)


def decode_notable(raw: bytes) -> Mapping[str, Any] | None:
    """Return a run's account by a pipeline, or a skipped firing, as on the topic; else None."""
    if b'"run_delivered"' not in raw and b'"schedule_skipped"' not in raw:
        return None
    try:
        value = orjson.loads(raw)
        texts, numbers = _NOTABLE[value["event"]]
        fits = all(isinstance(value[name], str) for name in texts)
        fits &= all(isinstance(value[name], int) for name in numbers)
        fits &= all(0 <= value[name] <= _LAST for name in ("server_time", "at") if name in value)
    except (KeyError, TypeError, ValueError):
        return None
    return value if fits else None


_NOTABLE = {
    "run_delivered": (("appid", "crawlid", "spiderid", "pipeline"), _DELIVERED),
    "schedule_skipped": (("appid", "schedule", "reason"), ("at", "server_time", "count")),
}
"""Fields of text and of whole numbers, by event."""


def encode_of_schedule(event: ScheduleEvent) -> bytes:
    """Return the event of a schedule as UTF-8 JSON."""
    record: dict[str, Any] = {
        "event": event.event,
        "appid": event.appid,
        "schedule": event.schedule,
        "at": event.at,
        "server_time": event.server_time,
    }
    if event.crawl is None:
        detail = {"detail": event.detail} if event.detail else {}
        return jsontext.dumps(record | {"reason": event.reason, "count": event.count} | detail)
    crawl = {"crawlid": event.crawl.crawlid, "spiderid": event.crawl.spiderid}
    return jsontext.dumps(record | crawl | {"seeds": event.seeds, "late_s": event.late_s})


def encode_verdict(event: GuardVerdict) -> bytes:
    """Return a verdict of the waste guard as UTF-8 JSON."""
    return jsontext.dumps(
        {
            "event": "guard_verdict",
            "server_time": event.server_time,
            "site": event.site,
            "family": event.family,
            "from": event.before,
            "to": event.after,
            "why": dict(event.why),
            "by": "learned",
            "mode": event.mode,
        }
    )


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


def _skipped(event: PagesSkipped) -> dict[str, Any]:
    return {
        "reason": event.reason,
        **({"family": event.family} if event.family else {}),
        **({"by": event.by} if event.by else {}),
        "site": event.site,
        "pages": [page._asdict() for page in event.pages],
        "count": len(event.pages),
    }


def _priced(event: PaymentRequired) -> dict[str, Any]:
    return {name: getattr(event, name) for name in ("id", "origin", "url", "price", "error")}


def _ending(event: CrawlEvent) -> dict[str, Any]:
    """Return the ledger of the run; empty for its beginning."""
    if event.event == "crawl_started":
        return {}
    counters: dict[str, Any] = dict.fromkeys(_COUNTERS, 0) | dict(event.counters)
    counters["filtered"] = dict(event.reasons.get("filtered", {}))
    counters["done_by_status"] = dict(event.reasons.get("done", {}))
    counters["failed_by_reason"] = dict(event.reasons.get("failed", {}))
    if skipped := event.reasons.get("skipped"):
        counters["skipped_by_reason"] = dict(skipped)
    if refused := refused_families(event.reasons.get("refused", {})):
        counters["refused_families"] = as_records(refused)
    if spent := event.reasons.get("spent_domains"):
        counters["spent_domains"] = dict(spent)
    if charged := event.reasons.get("charged"):
        counters["charged"] = views.charged_as_texts(charged)
    if dropped := event.reasons.get("dropped"):
        counters["dropped"] = dict(dropped)
    if reserved := event.reasons.get("reserved"):
        counters["reserved"] = sum(reserved.values())
    by = {"by": event.by} if event.by else {}
    return {"started": int(event.started_at), "counters": counters, **by}


def decode_page_failed(raw: bytes) -> PageFailed | None:
    """Return a page that will have no result; None for other records."""
    if b'"page_failed"' not in raw:
        return None
    try:
        value = orjson.loads(raw)
        if value["event"] != "page_failed":
            return None
        return PageFailed(
            crawl=CrawlKey(*(_text(value[name]) for name in ("spiderid", "appid", "crawlid"))),
            id=_text(value["id"]),
            url=_text(value["url"]),
            reason=_text(value["reason"]),
            run=int(value["run"]),
            server_time=int(value["server_time"]),
            attempts=int(value["attempts"]),
            depth=int(value["depth"]),
            parent_url=None if value.get("parent") is None else _text(value["parent"]),
            detail=_text(value.get("detail", "")),
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def encode_announced(appid: str, site: str, urls: Sequence[str], at: int) -> bytes:
    """Return the event of pages that their site says to have changed, at an epoch second."""
    about = {"event": "pages_announced", "appid": appid, "site": site, "server_time": at}
    return jsontext.dumps({**about, "urls": list(urls)})


def decode_announced(raw: bytes) -> tuple[str, Sequence[str], int] | None:
    """Return application, URLs and epoch second of such an event; None for other records."""
    try:
        value: Any = jsontext.loads(raw) if b'"pages_announced"' in raw else {"event": ""}
        if value["event"] != "pages_announced":
            return None
        return (
            _text(value["appid"]),
            [_text(url) for url in value["urls"]],
            int(value["server_time"]),
        )
    except (KeyError, TypeError, ValueError):
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def decode_crawl_event(raw: bytes, crawl: CrawlKey | None = None) -> CrawlEvent | None:
    """Return the start or end of a run, of ``crawl`` if given; None for other records."""
    if b'"crawl_' not in raw or (crawl and orjson.dumps(crawl.crawlid)[1:-1] not in raw):
        return None
    try:
        value = orjson.loads(raw)
        found = CrawlKey(value["spiderid"], value["appid"], value["crawlid"])
        if value["event"] not in _OF_CRAWLS or crawl not in (None, found):
            return None
        return _crawl_event(value, found)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _reserved(counters: Mapping[str, Any]) -> Mapping[str, int]:
    return {"reserved": int(counters["reserved"])} if "reserved" in counters else {}


def _refused(counters: Mapping[str, Any]) -> Mapping[str, int]:
    return {
        counter_of(each["reason"], each["site"], each["family"]): int(each["count"])
        for each in counters.get("refused_families", ())
    }


def _crawl_event(value: Mapping[str, Any], crawl: CrawlKey) -> CrawlEvent:
    counters = value.get("counters", {})
    return CrawlEvent(
        event=value["event"],
        crawl=crawl,
        run=int(value["run"]),
        server_time=int(value["server_time"]),
        started_at=value.get("started", 0),
        counters={name: int(counters[name]) for name in _COUNTERS if name in counters},
        reasons={
            "done": counters.get("done_by_status", {}),
            "failed": counters.get("failed_by_reason", {}),
            "skipped": counters.get("skipped_by_reason", {}),
            "filtered": counters.get("filtered", {}),
            "spent_domains": counters.get("spent_domains", {}),
            "charged": {name: int(sum_) for name, sum_ in counters.get("charged", {}).items()},
            "dropped": counters.get("dropped", {}),
            "reserved": _reserved(counters),
            "refused": _refused(counters),
        },
        by=_text(value.get("by", "")),
    )
