"""``pages``: what a memory knows of its pages, which are due, and a visit out of turn."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, InvalidUrl
from crawlstream.model.url import canonical, seed_url
from crawlstream.wire import jsontext
from pipeline_service.commands.printing import print_json, print_line, print_table
from pipeline_service.memory.known_page import KnownPage
from pipeline_service.memory.seen import key_of
from pipeline_service.memory.sql.visits import VisitStore
from pipeline_service.process import load_pipeline
from pipeline_service.sink_factory import open_visits
from pipeline_service.spec.config import Pipeline
from pipeline_service.spec.memory import PagesSink
from pipeline_service.spec.quantities import read_duration

_TIMES = ("first_seen", "last_seen", "last_heard", "last_changed", "next_visit")
_DAY_S, _HOUR_S, _MINUTE_S = 86_400, 3_600, 60
_LONGEST_S = 3_650 * _DAY_S
_CHANGES = ("new", "changed", "gone")


async def pages(settings: Settings, options: argparse.Namespace) -> int:
    """Do what the verb says; 1: a page is not in the memory. ConfigError, Unavailable."""
    pipeline = load_pipeline(settings, options.name)
    if not isinstance(pipeline.sink, PagesSink):
        raise ConfigError(f'the pipeline {pipeline.name} has no memory: a sink with kind = "pages"')
    store = open_visits(pipeline, pipeline.sink)
    try:
        return int(await asyncio.to_thread(_VERBS[options.verb], pipeline, store, options))
    finally:
        store.close()


def _status(pipeline: Pipeline, store: VisitStore, options: argparse.Namespace) -> int:
    told = store.status()
    if options.json:
        print_json(told)
        return 0
    fresh = told["fresh"]
    rows = [
        ("pages", f"{told['pages']:,}"),
        (
            "of them gone, failing, with validators that lie",
            _numbers(told, "gone", "failing", "liars"),
        ),
        ("fresh, by estimate", "-" if fresh is None else f"{fresh:.1%}"),
        ("due, in flight", _numbers(told, "due", "in_flight")),
        ("heard of within a day", f"{told['heard_of_in_a_day']:,}"),
        ("domains whose lastmods are ignored", f"{told['lastmods_ignored']:,}"),
        ("visits a day that the intervals come to", f"{told['visits_a_day']:,.0f}"),
    ]
    if pipeline.visits is not None and pipeline.visits.clock is not None:
        rows.append(("visits of all pages", f"{pipeline.visits.cron} ({pipeline.visits.zone})"))
    else:
        rows.append(("interval of a page that changes once a day", _span(told["base_s"])))
    for name, value in rows:
        print_line(f"{name:<48}{value}")
    for domain, count in told["always_changed"].items():
        print_line(
            f"{domain}: {count:,} pages have changed at each visit: does their signature suit?"
        )
    return 0


def _due(_: Pipeline, store: VisitStore, options: argparse.Namespace) -> int:
    found = store.due(max(options.count, 1))
    if options.json:
        for page in found:
            print_json(_record(page))
        return 0
    now = datetime.now(UTC).timestamp()
    rows = [
        [_at(page.next_visit, now), _span(page.interval_s), _seen(page), page.url] for page in found
    ]
    print_table(("due", "interval", "visits, changes", "url"), rows)
    return 0


def _changed(pipeline: Pipeline, store: VisitStore, options: argparse.Namespace) -> int:
    since = _since(options.since)
    keeps = isinstance(pipeline.sink, PagesSink) and pipeline.sink.keep
    counts, rows = Counter[str](), list[list[str]]()
    for page in _all_changed(store, since):
        if keeps and page.items is None:
            continue
        change = _change(page, since)
        counts[change] += 1
        if options.json:
            print_json(_changed_record(page, change, keeps=keeps))
        elif len(rows) < options.count:
            rows.append([change, _time(_changed_at(page, change)), page.url])
    if not options.json:
        print_table(("change", "at", "url"), sorted(rows))
        total = ", ".join(f"{counts[name]:,} {name}" for name in _CHANGES)
        print_line(f"{total}, since {_time(since)}")
    return 0


def _all_changed(store: VisitStore, since: float) -> Iterator[KnownPage]:
    after = ""
    while some := store.changed(since, after):
        yield from some
        after = some[-1].key


def _changed_record(page: KnownPage, change: str, *, keeps: bool) -> dict[str, Any]:
    """A page that has changed, with its items if they are kept."""
    told: dict[str, Any] = {
        "url": page.url,
        "appid": page.appid,
        "change": change,
        "at": _time(_changed_at(page, change)),
    }
    if keeps:
        told |= {"items": _parsed(page.items), "items_before": _parsed(page.items_before)}
    return told


def _change(page: KnownPage, since: float) -> str:
    if page.is_gone:
        return "gone"
    return "new" if page.first_seen >= since else "changed"


def _changed_at(page: KnownPage, change: str) -> float:
    return page.first_seen if change == "new" else page.last_changed or page.last_heard


def _parsed(items: object) -> object:
    """Items of a column: SQLite has JSON as text."""
    return jsontext.loads(items.encode()) if isinstance(items, str) else items


def _since(text: str) -> float:
    """Return a time, or a duration before now, in epoch seconds; ConfigError."""
    with contextlib.suppress(ValueError, OverflowError):
        at = datetime.fromisoformat(text)
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    with contextlib.suppress(ConfigError):
        ago_s = read_duration(text, "--since", least=1, most=_LONGEST_S)
        return datetime.now(UTC).timestamp() - ago_s
    raise ConfigError(
        f"--since {text!r}: expected a time, such as 2026-11-28T02:30 (UTC without a zone), or"
        ' how long ago, such as "24h" or "7d"'
    )


def _show(pipeline: Pipeline, store: VisitStore, options: argparse.Namespace) -> int:
    missing = 0
    for url, key in _keys(pipeline, options):
        page = store.page(key)
        if page is None:
            missing += 1
            print_line(f"{url} is not in the memory {pipeline.name}")
        elif options.json:
            print_json(_record(page))
        else:
            for name, value in _record(page).items():
                print_line(f"{name:<16}{'-' if value is None else value}")
    return 1 if missing else 0


def _now(pipeline: Pipeline, store: VisitStore, options: argparse.Namespace) -> int:
    keys = _keys(pipeline, options)
    known = set(store.visit_now([key for _, key in keys]))
    for url, key in keys:
        if key not in known:
            print_line(f"{url} is not in the memory {pipeline.name}: feed it by a crawl")
    print_line(f"{len(known):,} pages are due now")
    if pipeline.visits is None:
        print_line(f"Nothing visits them: there is no table [pipeline.{pipeline.name}.visits].")
    return 0 if len(known) == len({key for _, key in keys}) else 1


def _keys(pipeline: Pipeline, options: argparse.Namespace) -> Sequence[tuple[str, str]]:
    """The URLs that are asked for, and their keys; ConfigError."""
    if not options.urls:
        raise ConfigError("expected a URL")
    appid = options.appid or _only_appid(pipeline)
    try:
        return [(url, key_of(appid, canonical(seed_url(url)))) for url in options.urls]
    except InvalidUrl as error:
        raise ConfigError(str(error)) from error


def _only_appid(pipeline: Pipeline) -> str:
    wanted = pipeline.where.appid or frozenset()
    if len(wanted) != 1:
        raise ConfigError("the pipeline has several applications: name one by --appid")
    return next(iter(wanted))


def _record(page: KnownPage) -> dict[str, Any]:
    """A page as people and programs see it."""
    told = asdict(page)
    for name in ("experience", "pace", "least_s", "most_s", "key", "items", "items_before"):
        del told[name]
    changes_a_day = page.experience.rate(page.least_s)
    times = {name: None if told[name] is None else _time(told[name]) for name in _TIMES}
    return {**told, **times, "changes_a_day": round(changes_a_day, 4), "is_gone": page.is_gone}


def _seen(page: KnownPage) -> str:
    if page.is_gone:
        return "gone"
    return f"{page.visits}, {page.changes}" + (f", {page.fails} failures" if page.fails else "")


def _numbers(told: Mapping[str, Any], *names: str) -> str:
    return ", ".join(f"{told[name]:,}" for name in names)


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _at(at: float, now: float) -> str:
    return f"in {_span(at - now)}" if at > now else f"for {_span(now - at)}"


def _span(seconds: float) -> str:
    for size, letter in ((_DAY_S, "d"), (_HOUR_S, "h"), (_MINUTE_S, "m")):
        if seconds >= size:
            return f"{seconds / size:.1f} {letter}"
    return f"{seconds:.0f} s"


_VERBS = {"status": _status, "due": _due, "changed": _changed, "show": _show, "now": _now}
