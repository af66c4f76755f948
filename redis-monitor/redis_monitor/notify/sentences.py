"""Notices of events: crawls that ended, runs whose data is not as expected, skipped firings."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from crawlstream.model.event import CrawlEvent
from crawlstream.wire import events
from redis_monitor.notify.notice import Notice

_WANTED_SKIPS = frozenset({"paused", "pending"})
"""Reasons for skips that need no attention: a user has paused it, or fired it twice."""
_MOST_BOUNDS = 5


def notices_of(raw: bytes, about: Collection[str], cluster: str) -> Iterator[Notice]:
    """Yield the notices of a record of the events topic, as far as ``about`` wants them."""
    event = events.decode_crawl_event(raw)
    if event is not None:
        if event.event.removeprefix("crawl_") in about:
            yield ending_of(event, cluster)
        return
    told = events.decode_notable(raw)
    if told is None:
        return
    if told["event"] == "schedule_skipped":
        if "skipped" in about and told["reason"] not in _WANTED_SKIPS:
            yield _skipped(told, cluster)
        return
    if "undelivered" in about and told["undelivered"]:
        yield _undelivered(told, cluster)
    if "quality" in about and told.get("ok") is False:
        yield _quality(told, cluster)


def ending_of(event: CrawlEvent, cluster: str) -> Notice:
    """The notice of a run that ended."""
    key, counters = event.crawl, event.counters
    parts = (cluster, *(key.spiderid, key.appid, key.crawlid), str(event.run), event.event)
    seconds = max(0, int(event.server_time - event.started_at)) if event.started_at else 0
    minutes, hours = seconds // 60, seconds // 3600
    return Notice(
        id=name_of(*parts),
        event=event.event,
        at=event.server_time,
        cluster=cluster,
        text=(
            f"Crawl {key.crawlid} of {key.appid} {event.event.removeprefix('crawl_')}:"
            f" {counters.get('done', 0)} done, {counters.get('failed', 0)} failed,"
            f" run {event.run}, {hours}:{minutes % 60:02}:{seconds % 60:02} h."
        ),
        ending=event,
    )


def _skipped(told: Mapping[str, Any], cluster: str) -> Notice:
    at = datetime.fromtimestamp(told["at"], UTC).strftime("%Y-%m-%d %H:%M UTC")
    detail = f" ({told['detail']})" if told.get("detail") else ""
    count = told.get("count", 1)
    which = f"its firing of {at}" if count == 1 else f"{count} firings up to {at}"
    text = f"Schedule {told['schedule']} of {told['appid']} skipped {which}: {told['reason']}"
    parts = (told["appid"], told["schedule"], str(told["at"]), told["reason"])
    return _notice("schedule_skipped", told, parts, cluster=cluster, text=f"{text}{detail}.")


def _undelivered(told: Mapping[str, Any], cluster: str) -> Notice:
    count, pipeline = told["undelivered"], told["pipeline"]
    records = "record was" if count == 1 else "records were"
    text = (
        f"{count} {records} not delivered by pipeline {pipeline}, of {_run(told)}:"
        f" `crawlstream pipeline undelivered list {pipeline}` says why."
    )
    return _notice("run_undelivered", told, _parts(told), cluster=cluster, text=text)


def _quality(told: Mapping[str, Any], cluster: str) -> Notice:
    pipeline, missed = told["pipeline"], _missed(told.get("expect"))
    which = f": {', '.join(missed[:_MOST_BOUNDS])}" if missed else ""
    text = (
        f"Items of pipeline {pipeline}, of {_run(told)}, are not as expected{which}."
        f" `crawlstream pipeline report {pipeline}` shows them."
    )
    return _notice("quality_missed", told, _parts(told), cluster=cluster, text=text)


def _missed(expect: object) -> list[str]:
    """Return the bounds that a run has missed, each with what was found."""
    missed = []
    for one in expect if isinstance(expect, list) else ():
        if isinstance(one, dict) and one.get("met") is False:
            bounds = (name for name in one if name not in ("value", "met"))
            missed += [f"{name} is {one.get('value')} instead of {one[name]}" for name in bounds]
    return missed


def _run(told: Mapping[str, Any]) -> str:
    return f"crawl {told['crawlid']} of {told['appid']}, run {told['run']}"


def _parts(told: Mapping[str, Any]) -> tuple[str, ...]:
    names = ("spiderid", "appid", "crawlid", "run", "pipeline", "edition")
    return tuple(str(told[name]) for name in names)


def _notice(
    event: str, told: Mapping[str, Any], parts: tuple[str, ...], *, cluster: str, text: str
) -> Notice:
    name = name_of(cluster, event, *parts)
    at = told["server_time"]
    return Notice(id=name, event=event, at=at, cluster=cluster, text=text, record=told)


def name_of(*parts: str) -> str:
    """Return the name of a notice, equal at every time and in every process."""
    return "msg_" + blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()
