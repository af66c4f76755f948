"""Replies on the outbound topics, with all keys that clients of the predecessor read, and more.

Two irregularities are part of the contract: ``expires`` is a number in the reply about an
application and text in the reply about a crawl, and replies to ``info`` have no ``action``.
``server_time`` is always in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import orjson

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.model.recurring.schedule import AT, Schedule, ScheduleState
from crawlstream.model.request import (
    ActionRequest,
    ScheduleRequest,
    StatsRequest,
    ZookeeperRequest,
)
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.web.refused_families import as_records
from crawlstream.wire import jsontext, views

Section = Mapping[str, Any]
"""Part of a stats reply, made by the redis-monitor's ``stats_reply``."""

_Record = dict[str, Any]

_OF_RESULTS = ("id", "url", "status_code", "mime", "body_size", "digest")


def info_app(request: ActionRequest, crawls: Iterable[CrawlState], *, server_time: int) -> bytes:
    """Return the backlog of an application's crawls, without crawls that have none."""
    crawls = list(crawls)
    waiting = [state for state in crawls if state.pending]
    domains = {domain.domain for state in waiting for domain in state.domains if domain.total}
    record: _Record = {
        "uuid": request.uuid,
        "appid": request.appid,
        "spiderid": request.spiderid,
        "total_pending": sum(state.pending for state in waiting),
        "total_domains": len(domains),
        "total_crawlids": len(waiting),
        "crawlids": {state.crawl.crawlid: _summary(state) for state in waiting},
        "server_time": server_time,
    }
    return jsontext.dumps(record | _cut(*waiting) | _missing(*crawls))


def info_crawl(request: ActionRequest, state: CrawlState | None, *, server_time: int) -> bytes:
    """Return the backlog of a crawl and its ledger; zeros for an unknown crawl."""
    record: _Record = {
        "uuid": request.uuid,
        "appid": request.appid,
        "spiderid": request.spiderid,
        "crawlid": request.crawlid,
        "total_pending": 0,
        "total_domains": 0,
        "domains": {},
        "server_time": server_time,
        "state": "unknown",
    }
    if state is None:
        return jsontext.dumps(record)
    domains = _domains(state.domains)
    record |= {
        "total_pending": state.pending,
        "total_domains": len(domains),
        "domains": domains,
    } | _ledger(state)
    record |= _cut(state) | _missing(state)
    if state.in_transit:
        record["in_transit"] = state.in_transit
    if state.expires:
        record["expires"] = str(state.expires)
    if state.paused_until:
        record["paused_until"] = state.paused_until
    return jsontext.dumps(record)


def stop(
    request: ActionRequest,
    *,
    purged: int | None,
    server_time: int,
    namesakes: Iterable[CrawlState] = (),
) -> bytes:
    """Return the reply to a stop; ``purged`` None: no such crawl was running.

    ``namesakes`` are the crawls of the application with its crawlid.
    """
    record = _action(request, server_time) | {"total_purged": purged or 0}
    if purged is None:
        record["error"] = _why_not(request, namesakes)
    return jsontext.dumps(record)


def steered(
    request: ActionRequest,
    *,
    run: int | None,
    server_time: int,
    namesakes: Iterable[CrawlState] = (),
) -> bytes:
    """Return the reply to pause, resume and reprioritize; ``run`` None: nothing was changed."""
    record = _action(request, server_time)
    if run is None:
        return jsontext.dumps(record | {"error": _why_not(request, namesakes)})
    record["run"] = run
    if request.name == "reprioritize":
        record["priority"] = request.priority
    if request.name == "pause" and request.until:
        record["until"] = request.until
    return jsontext.dumps(record)


def _why_not(request: ActionRequest, namesakes: Iterable[CrawlState]) -> str:
    if not request.crawlid:
        return f"{request.name} needs a crawlid"
    if request.name == "reprioritize" and request.priority is None:
        return "reprioritize needs a priority"
    known = ", ".join(f"{one.crawl.spiderid} ({one.state})" for one in namesakes)
    others = f"; spiders with a crawl of this id: {known}" if known else ""
    return f"no such crawl is under way{others}"


def action_error(request: ActionRequest, error: str, *, server_time: int) -> bytes:
    """Return the reply to an action that changed nothing, with the reason as a sentence."""
    return jsontext.dumps(_action(request, server_time) | {"error": error})


def expired(crawl: CrawlKey, *, total_expired: int, server_time: int, by: str = "") -> bytes:
    """Return the message that a crawl reached its ``expires``; it has no uuid (no request).

    ``by`` is the budget that it has spent, if it ended by one.
    """
    return jsontext.dumps(
        {
            "action": "expired",
            "appid": crawl.appid,
            "spiderid": crawl.spiderid,
            "crawlid": crawl.crawlid,
            "total_expired": total_expired,
            "server_time": server_time,
            **({"by": by} if by else {}),
        }
    )


def zookeeper(request: ZookeeperRequest, *, server_time: int, error: str | None = None) -> bytes:
    """Return the reply to a change of the throttle rules; ``error``: why nothing was changed."""
    record: _Record = {
        "uuid": request.uuid,
        "appid": request.appid,
        "action": request.action,
        "domain": request.domain,
        "server_time": server_time,
    }
    return jsontext.dumps(record | ({"error": error} if error else {}))


_FIRES: Mapping[str, _Record] = {
    "fires": {"outcome": "fires"},
    "pending": {"outcome": "skipped", "reason": "pending"},
}
"""Fields of the reply to a request to fire, by the outcome of the request."""


def schedule(
    request: ScheduleRequest,
    state: ScheduleState | None,
    *,
    error: str,
    outcome: str,
    server_time: int,
) -> bytes:
    """Return the reply about a schedule; ``state`` None: it was removed; ``error``: the reason.

    ``outcome`` is that of ``PendingAction``.
    """
    record: _Record = {
        "action": "schedule",
        "do": request.do,
        "appid": request.appid,
        "schedule": request.name,
        "uuid": request.uuid,
        "server_time": server_time,
    }
    if error:
        return jsontext.dumps(record | {"error": error})
    if state is None:
        return jsontext.dumps(record)
    more = dict(_FIRES.get(outcome, {}))
    warning = _caps_warning(state.schedule) if request.do == "set" else ""
    more |= {"warnings": [warning]} if warning else {}
    return jsontext.dumps({**record, **views.schedule(state, server_time), **more})


def _caps_warning(told: Schedule) -> str:
    """Return a warning about page limits if all firings feed the same crawl, or ""."""
    caps = [name for name in ("max_pages", "domain_max_pages") if told.crawl.get(name)]
    if not caps or AT in str(told.crawl.get("crawlid")):
        return ""
    return (
        f"{' and '.join(caps)} counts the pages of all firings as long as the crawl is remembered:"
        f" with {AT} in crawlid each firing has its own"
    )


def stats(request: StatsRequest, section: Section, *, server_time: int) -> bytes:
    """Return the requested counters."""
    record = {
        "stats": request.stats,
        "appid": request.appid,
        "uuid": request.uuid,
        "server_time": server_time,
    }
    return jsontext.dumps({**section, **record})


def accepted(crawl: CrawlKey, *, uuid: str, run: int, server_time: int) -> bytes:
    """Return the reply to an admitted seed that requested one."""
    return jsontext.dumps(
        {
            "action": "accepted",
            "appid": crawl.appid,
            "crawlid": crawl.crawlid,
            "spiderid": crawl.spiderid,
            "uuid": uuid,
            "run": run,
            "server_time": server_time,
        }
    )


def rejected(
    ids: Mapping[str, str], *, reason: str, errors: Sequence[str], server_time: int
) -> bytes:
    """Return the reply to a refused request, with its readable ids (``requests.readable_ids``)."""
    record = {"reason": reason, "errors": list(errors), "server_time": server_time}
    return jsontext.dumps({"action": "rejected", **ids, **record})


def page(reply: PageReply) -> bytes:
    """Return a reply as UTF-8 JSON: about 500 bytes and the URL."""
    record: _Record = {
        "action": "page",
        "uuid": reply.uuid,
        "appid": reply.crawl.appid,
        "crawlid": reply.crawl.crawlid,
        "spiderid": reply.crawl.spiderid,
        "run": reply.run,
    }
    if reply.place is not None:
        record |= {name: getattr(reply, name) for name in _OF_RESULTS} | reply.place._asdict()
    else:
        named = {"id": reply.id, "url": reply.url, "attempts": reply.attempts}
        record |= {"reason": reply.reason} | (named if reply.id else {})
    return jsontext.dumps(record | {"server_time": reply.server_time})


def decode_page(raw: bytes) -> PageReply | None:
    """Return the reply in a record; None for other records of the topic of replies."""
    if b'"page"' not in raw:
        return None
    try:
        value = orjson.loads(raw)
        if value["action"] != "page":
            return None
        reply = PageReply(
            uuid=_text(value["uuid"]),
            crawl=CrawlKey(*(_text(value[name]) for name in ("spiderid", "appid", "crawlid"))),
            run=int(value["run"]),
            server_time=int(value["server_time"]),
            reason=_text(value.get("reason", "")),
            attempts=int(value.get("attempts", 0)),
            place=_place(value) if "partition" in value else None,
            **{name: value.get(name) for name in _OF_RESULTS},
        )
    except (KeyError, TypeError, ValueError, OverflowError):
        return None
    return reply if (reply.place is None) == bool(reply.reason) else None


def _place(value: _Record) -> RecordPlace:
    offset = value["offset"]
    return RecordPlace(
        topic_id=_text(value["topic_id"]),
        partition=int(value["partition"]),
        offset=None if offset is None else int(offset),
    )


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("expected text")
    return value


def _action(request: ActionRequest, server_time: int) -> _Record:
    return {
        "action": request.name,
        "appid": request.appid,
        "spiderid": request.spiderid,
        "crawlid": request.crawlid,
        "uuid": request.uuid,
        "server_time": server_time,
    }


def _summary(state: CrawlState) -> _Record:
    """Return a crawl in the reply about its application."""
    domains = _domains(state.domains)
    record: _Record = {
        "total": state.pending,
        "distinct_domains": len(domains),
        "domains": domains,
    }
    return record | ({"expires": state.expires} if state.expires else {})


def _cut(*states: CrawlState) -> _Record:
    """Return the mark of replies in which not all waiting domains are listed and counted."""
    return {"domains_truncated": True} if any(state.is_cut for state in states) else {}


def _missing(*states: CrawlState) -> _Record:
    """Return the partitions that did not answer: their entries are in none of the figures."""
    missing = sorted({p for state in states for p in state.missing_partitions})
    return {"missing_partitions": missing} if missing else {}


def _domains(domains: Sequence[DomainBacklog]) -> _Record:
    return {
        domain.domain: {
            "total": domain.total,
            "high_priority": domain.high_priority,
            "low_priority": domain.low_priority,
        }
        for domain in domains
        if domain.total
    }


def _refused(state: CrawlState) -> _Record:
    families = as_records(state.refused_families)
    return {"refused_families": families} if families else {}


def _ledger(state: CrawlState) -> _Record:
    return {
        "state": state.state,
        "run": state.run,
        "admitted": state.admitted,
        "pending": state.pending,
        "spilled": state.spilled,
        "in_flight": state.held,
        "held_back": dict(state.held_back),
        "done": state.done,
        "redirected": state.redirected,
        "failed": dict(state.failed_by_reason),
        "skipped": dict(state.skipped_by_reason),
        "filtered": dict(state.filtered_by_reason),
        "charged": views.charged_as_texts(state.charged),
        "started": int(state.started_at),
        "last_activity": int(state.last_activity),
        "remember": state.remember,
        "counted": state.counted,
        **({"budgets": state.spending} if state.budgets else {}),
        **_refused(state),
        **({"spent_domains": dict(state.spent_domains)} if state.spent_domains else {}),
    }
