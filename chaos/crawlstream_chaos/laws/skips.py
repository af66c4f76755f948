"""The law of pages that the waste guard ends before their requests: each is named, and counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from crawlstream_chaos.facts.facts import (
    EVENTS,
    RESULTS,
    Facts,
    FedCrawl,
    TopicRecord,
    endings_of,
    may_forget,
)

_OTHER_ENDS = ("redirected", "stopped", "expired")
"""Counters of pages that end without a record of their own."""


def skipped_pages_are_named(facts: Facts) -> Iterator[str]:
    """Each page that is counted as skipped was named in an event, and each named one has ended.

    If its crawler dies in between, or Redis forgets that it was skipped, a named page comes again:
    it is named again, or fetched if the verdict was taken back meanwhile.
    """
    for fed in facts.fed:
        for ending in {r.value["run"]: r for r in endings_of(facts, fed)}.values():
            yield from _of_run(facts, fed, ending)


def _of_run(facts: Facts, fed: FedCrawl, ending: TopicRecord) -> Iterator[str]:
    run, counters = ending.value["run"], ending.value["counters"]
    named: dict[str, str] = {}
    for record in facts.on(EVENTS, fed.crawlid):
        if record.value["event"] == "pages_skipped" and record.value["run"] == run:
            yield from _of_event(record)
            named |= {page["id"]: page["url"] for page in record.value["pages"]}
    came = {r.value["id"]: r.at for r in facts.on(RESULTS, fed.crawlid) if r.value["run"] == run}
    struck = min((strike.at for strike in facts.strikes), default=float("inf"))
    for name in sorted(named.keys() & came.keys()):
        if came[name] < struck:
            yield f"{fed.crawlid}: skipped and delivered, before any fault: {named[name]}"
    skipped = counters["skipped"]
    if skipped > len(named):
        yield f"{fed.crawlid}: {skipped} counted as skipped, {len(named)} named"
    fewest = len(named.keys() - came.keys() - _failed(facts, fed, run))
    if facts.strikes:
        fewest -= sum(counters[end] for end in _OTHER_ENDS)
    if skipped < fewest and not may_forget(facts, fed):
        yield f"{fed.crawlid}: {skipped} counted as skipped, at least {fewest} of those named were"


def _of_event(record: TopicRecord) -> Iterator[str]:
    pages, count = record.value["pages"], record.value["count"]
    if not pages or count != len(pages) or record.key != pages[0]["id"]:
        yield f"key {record.key} and count {count} of an event with {len(pages)} skipped pages"


def _failed(facts: Facts, fed: FedCrawl, run: int) -> frozenset[str]:
    return frozenset(
        r.value["id"]
        for r in facts.on(EVENTS, fed.crawlid)
        if r.value["event"] == "page_failed" and r.value["run"] == run
    )


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "skipped pages are named": skipped_pages_are_named,
}
