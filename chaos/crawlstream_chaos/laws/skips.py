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
    named_as_skipped,
)

_OTHER_ENDS = ("redirected", "stopped", "expired")
"""Counters of pages that end without a record of their own."""


def skipped_pages_are_named(facts: Facts) -> Iterator[str]:
    """Only pages that may be are skipped: each is named in an event, and counted.

    If its crawler dies in between, or Redis forgets that it was skipped, a named page comes again:
    it is named again, or fetched if the verdict was taken back meanwhile.
    """
    for fed in facts.fed:
        for ending in {r.value["run"]: r for r in endings_of(facts, fed)}.values():
            yield from _of_run(facts, fed, ending)


def _of_run(facts: Facts, fed: FedCrawl, ending: TopicRecord) -> Iterator[str]:
    run = ending.value["run"]
    named = named_as_skipped(facts, fed, run)
    for record in _events(facts, fed, run, "pages_skipped"):
        yield from _of_event(record)
    for url in sorted(set(named.values()) - fed.may_be_skipped):
        yield f"{fed.crawlid}: skipped but should not be: {url}"
    came = {r.value["id"]: r.at for r in facts.on(RESULTS, fed.crawlid) if r.value["run"] == run}
    struck = min((strike.at for strike in facts.strikes), default=float("inf"))
    for name in sorted(named.keys() & came.keys()):
        if came[name] < struck:
            yield f"{fed.crawlid}: skipped and delivered, before any fault: {named[name]}"
    failed = {record.value["id"] for record in _events(facts, fed, run, "page_failed")}
    fewest = len(named.keys() - came.keys() - failed)
    yield from _counted(facts, fed, ending, fewest, most=len(named))


def _events(facts: Facts, fed: FedCrawl, run: int, name: str) -> Iterator[TopicRecord]:
    """Yield the events of a run under a name."""
    for record in facts.on(EVENTS, fed.crawlid):
        if record.value["event"] == name and record.value["run"] == run:
            yield record


def _counted(
    facts: Facts, fed: FedCrawl, ending: TopicRecord, fewest: int, *, most: int
) -> Iterator[str]:
    """Compare the counter; after a fault, a named page may have ended without a record."""
    counters = ending.value["counters"]
    skipped = counters.get("skipped", 0)  # The version before counts none.
    if facts.strikes:
        fewest -= sum(counters[end] for end in _OTHER_ENDS)
    if skipped > most:
        yield f"{fed.crawlid}: {skipped} counted as skipped, {most} named"
    if skipped < fewest and not may_forget(facts, fed):
        yield f"{fed.crawlid}: {skipped} counted as skipped, at least {fewest} of those named were"


def _of_event(record: TopicRecord) -> Iterator[str]:
    pages, count = record.value["pages"], record.value["count"]
    if not pages or count != len(pages) or record.key != pages[0]["id"]:
        yield f"key {record.key} and count {count} of an event with {len(pages)} skipped pages"


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "skipped pages are named": skipped_pages_are_named,
}
