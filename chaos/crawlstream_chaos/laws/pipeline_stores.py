"""Laws for the stores of pipelines, besides those for the topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from crawlstream_chaos.facts.facts import Facts, FedCrawl, TopicRecord
from crawlstream_chaos.facts.stored import OUTCOMES, ClaimedSegment, Stored, count_of, unaccounted

_RESULTS, _EVENTS = "crawled_firehose", "events"
_GONE, _WELL = (404, 410), 2
"""Statuses of pages that are gone, and the first digit of those of others that are there."""


def each_page_once(facts: Facts) -> Iterator[str]:
    """Every wanted page of the topic is in the store once, and no other is."""
    for stored in _of_pages(facts):
        there = Counter(name for ids in stored.pages.values() for name in ids)
        wanted = {r.value["id"]: r.value["url"] for r in _results(facts) if _is_wanted(stored, r)}
        for name in sorted(wanted.keys() - there.keys()):
            yield f"{stored.pipeline}: never stored: {wanted[name]}"
        for name, count in sorted(there.items()):
            if count > 1:
                yield f"{stored.pipeline}: stored {count} times: {wanted.get(name, name)}"
            elif name not in wanted and name not in stored.judged:
                yield f"{stored.pipeline}: stored, but not wanted: {name}"


def each_document_newest(facts: Facts) -> Iterator[str]:
    """An index has one document for each URL, of its newest result; none if it is gone."""
    for stored in facts.stores:
        if stored.documents is not None:
            yield from _misplaced(stored, stored.documents, _newest(facts))


def _misplaced(
    stored: Stored, documents: Sequence[tuple[str, str]], newest: Mapping[str, str | None]
) -> Iterator[str]:
    there = dict(documents)
    for url, count in sorted(Counter(url for url, _ in documents).items()):
        if count > 1:
            yield f"{stored.pipeline}: {count} documents of {url}"
    for url, page in sorted(newest.items()):
        if there.get(url) != page:
            expected = f"the page {page}" if page else "nothing"
            yield f"{stored.pipeline}: {there.get(url)} of {url}, expected {expected}"
    for url in sorted(there.keys() - newest.keys()):
        if there[url] not in stored.judged:
            yield f"{stored.pipeline}: a document of no result: {url}"


def _newest(facts: Facts) -> Mapping[str, str | None]:
    """Return the id of the newest result of each URL; None: the page is gone.

    Of results with one id, the first counts.
    """
    first: dict[str, TopicRecord] = {}
    for record in sorted(_results(facts), key=lambda each: (each.partition, each.offset)):
        first.setdefault(record.value["id"], record)
    newest: dict[str, str | None] = {}
    for record in sorted(first.values(), key=lambda each: _time_of(each.value["timestamp"])):
        value = record.value
        status, page = value["status_code"], value["id"]
        if status in _GONE or status // 100 == _WELL:
            newest |= dict.fromkeys(value.get("redirect_urls") or (), None)
            newest[value["url"]] = None if status in _GONE else page
    return newest


def _time_of(text: str) -> datetime:
    return datetime.fromisoformat(text)


def segments_follow(facts: Facts) -> Iterator[str]:
    """Segments cover the source without gap or overlap; their files are there, and no others."""
    for stored in facts.stores:
        for partition, end in sorted(stored.source.items()):
            of_it = [each for each in stored.segments if each.partition == partition]
            for why in _gaps(of_it, end):
                yield f"{stored.pipeline}: partition {partition}: {why}"
        noted = {n: rows for each in stored.segments for n, rows in (each.files or {}).items()}
        found = {name: len(ids) for name, ids in stored.pages.items()}
        for name in sorted(noted.keys() | found.keys()):
            if noted.get(name) != found.get(name):
                told, there = noted.get(name, "nothing"), found.get(name, "nothing")
                yield f"{stored.pipeline}: {name} holds {there}, and {told} is noted of it"


def _gaps(segments: Sequence[ClaimedSegment], end: int) -> Iterator[str]:
    at = segments[0].start if segments else 0
    for each in segments:
        if each.start != at:
            yield f"a segment begins at {each.start}, where the one before ends at {at}"
        if each.files is None:
            yield f"the segment at {each.start} is claimed, and was never finished"
        at = each.next
    if at < end:
        yield f"the source ends at {end}, and what is stored at {at}"


def accounts_close(facts: Facts) -> Iterator[str]:
    """Every record that was read has an outcome, and each number matches the store."""
    for stored in facts.stores:
        total, rows = stored.tally(), sum(map(len, stored.pages.values()))
        if left := unaccounted(total):
            yield f"{stored.pipeline}: {left} records were read, and nobody says what they became"
        if stored.documents is None and total["delivered"] != rows:
            yield f"{stored.pipeline}: {total['delivered']} counted as delivered, {rows} stored"
        for fed in facts.fed:
            yield from _of_a_crawl(facts, stored, fed)


def _of_a_crawl(facts: Facts, stored: Stored, fed: FedCrawl) -> Iterator[str]:
    results = facts.on(_RESULTS, fed.crawlid)
    for run in sorted({r.value["run"] for r in results}):
        of_it = [r for r in results if r.value["run"] == run]
        pages = {r.value["id"]: _is_wanted(stored, r) for r in of_it}
        wanted = sum(pages.values())
        there = {
            "read": len(of_it),
            "delivered": wanted,
            "repeats": len(of_it) - len(pages),
            "filtered": len(pages) - wanted,
            "undelivered": 0,
        }
        appid = of_it[0].value["appid"]
        tally = stored.tally("\t".join((appid, fed.crawlid, fed.spiderid, str(run))))
        for name, count in there.items():
            if tally[name] != count:
                yield (
                    f"{stored.pipeline}: run {run} of {fed.crawlid}: {tally[name]} counted as"
                    f" {name}, {count} to be seen"
                )


def deliveries_are_told(facts: Facts) -> Iterator[str]:
    """The end of each run is reported once all of it is stored: done = read - repeats + silent."""
    for stored in facts.stores:
        for fed in facts.fed:
            told = [
                r.value
                for r in facts.on(_EVENTS, fed.crawlid)
                if r.value["event"] == "run_delivered" and r.value["pipeline"] == stored.pipeline
            ]
            if not told:
                yield f"{stored.pipeline}: the end of {fed.crawlid} was never told"
            for value in told:
                rest = value["done"] - (value["read"] - value["repeats"])
                counted = sum(count_of(value[name]) for name in OUTCOMES)
                if rest or not value["complete"] or value["silent"]:
                    yield f"{stored.pipeline}: {fed.crawlid} was told with {rest} of its pages away"
                if counted != value["read"]:
                    yield (
                        f"{stored.pipeline}: {fed.crawlid} was told with {value['read']} read and"
                        f" {counted} accounted for"
                    )


def undelivered_is_told(facts: Facts) -> Iterator[str]:
    """Each invalid record is on the topic of undelivered ones, under its place, and counted."""
    for stored in facts.stores:
        for place in facts.unreadable:
            if f"{stored.pipeline}:1:{place}" not in facts.undelivered:
                yield f"{stored.pipeline}: never told as undelivered: {place}"
        counted = stored.tally()["undelivered"]
        if counted != len(facts.unreadable):
            yield (
                f"{stored.pipeline}: {counted} counted as undelivered, {len(facts.unreadable)} to"
                " be seen"
            )


def archives_are_whole(facts: Facts) -> Iterator[str]:
    """Digests are right, each page is found by the index of its file, and revisits resolve."""
    for stored in facts.stores:
        for fault in stored.faults:
            yield f"{stored.pipeline}: {fault}"
        if (told := stored.marked("revisits")) != stored.revisits:
            yield f"{stored.pipeline}: {told} counted as revisits, {stored.revisits} stored"


def _results(facts: Facts) -> Sequence[TopicRecord]:
    return [record for record in facts.records if record.topic == _RESULTS]


def _of_pages(facts: Facts) -> Sequence[Stored]:
    """Return the stores that keep all pages."""
    return [stored for stored in facts.stores if stored.documents is None]


def _is_wanted(stored: Stored, result: TopicRecord) -> bool:
    return result.value["status_code"] in stored.statuses


LAWS = {
    "each page is stored once": each_page_once,
    "each document is the newest page": each_document_newest,
    "segments follow each other": segments_follow,
    "accounts close": accounts_close,
    "a delivery is reported": deliveries_are_told,
    "what is undelivered is reported": undelivered_is_told,
    "archives are whole": archives_are_whole,
}
