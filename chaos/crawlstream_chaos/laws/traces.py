"""Laws of traces: each sampled page is one trace, whatever dies; a lost span is missed, not wrong.

A process that is killed loses the spans of its last moments. So the trace of a page may miss spans
where a fault was near. All others must be there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

from crawlstream.tasks import wait_until
from crawlstream_chaos.facts.facts import RESULTS, Facts, Strike, TopicRecord
from crawlstream_chaos.facts.trace_collector import SeenSpan
from crawlstream_traces.context import is_in_share, parent_in

SHARE = 0.25
"""Share of the pages that are sampled in a round."""
_NEAR_MS = 15_000
"""A fault within so long before or after the record of a page may have cost the page its spans."""
_SPANS_S = 30
_ROOTS = frozenset({"intake", "wait", "page"})
_ENDED = frozenset({"done", "stale"})
"""Outcomes of an attempt whose result Kafka has; it is stale if its crawl was stopped meanwhile."""


def each_page_is_one_trace(facts: Facts) -> Iterator[str]:
    """Every attempt at a page, and every reader of its result, finds the trace of its id.

    Of the others, none has a trace.
    """
    if facts.spans is None:
        return
    for record in facts.records:
        if record.topic == RESULTS:
            yield from _of_result(record)
    ids = {record.value["id"] for record in _of_pages(facts)}
    for span in facts.spans:
        page = str(span.attributes.get("crawlstream.id"))
        if page in ids and page != span.trace_id:
            yield f"{span.name} of the page {page} is in the trace {span.trace_id}"
        elif page in ids and not is_in_share(page, SHARE):
            yield f"{span.name} of the page {page}, which is not sampled"


def _of_result(record: TopicRecord) -> Iterator[str]:
    page, header = record.value["id"], record.value.get("traceparent")
    place = parent_in(header) if header else None
    if (place and place.trace_id) != (page if is_in_share(page, SHARE) else None):
        yield f"the result of the page {page} names the trace {header}"


def traces_are_connected(facts: Facts) -> Iterator[str]:
    """Each span is below one that has come, or that a killed process has named before its end."""
    named: defaultdict[str, set[str]] = defaultdict(set)
    for record in facts.records:
        if place := parent_in(str(record.value.get("traceparent"))):
            named[place.trace_id].add(place.span_id)
    by_trace: defaultdict[str, list[SeenSpan]] = defaultdict(list)
    ids = {record.value["id"] for record in _of_pages(facts)}
    for span in facts.spans or ():
        if span.trace_id in ids:
            by_trace[span.trace_id].append(span)
    for trace, spans in by_trace.items():
        yield from _of_trace(trace, spans, named[trace])


def _of_trace(trace: str, spans: Sequence[SeenSpan], named: set[str]) -> Iterator[str]:
    roots = {span.parent_id for span in spans if span.name == "page"}
    intakes = {span.span_id for span in spans if span.name == "intake"}
    if len(roots) > 1 or (intakes and roots and intakes != roots):
        yield f"{trace}: its pages are below {sorted(roots)}, its intake is {sorted(intakes)}"
    pages = {span.span_id for span in spans if span.name == "page"}
    times: defaultdict[str, set[tuple[int, int]]] = defaultdict(set)
    for span in spans:
        times[span.span_id].add((span.begin, span.end))
        known = pages | named if span.service == "pipeline" else pages
        if span.name not in _ROOTS and span.parent_id not in known:
            yield f"{trace}: {span.name} is below {span.parent_id}, of which there is no trace"
        if span.name != "intake" and len(times[span.span_id]) > 1:
            yield f"{trace}: two spans {span.name} have the id {span.span_id}"


def missing(facts: Facts) -> Iterator[str]:
    """Name sampled pages with a result and without the span of it, unless a fault was near."""
    if facts.spans is None:
        return
    ended = {
        span.trace_id
        for span in facts.spans
        if span.name == "page" and span.attributes.get("crawlstream.outcome") in _ENDED
    }
    for record in facts.records:
        if record.topic == RESULTS and not _is_near(facts, record):
            page = record.value["id"]
            if is_in_share(page, SHARE) and page not in ended:
                yield f"the page {page} has a result, and no span says so"


async def all_traced(
    records: Sequence[TopicRecord],
    strikes: Sequence[Strike],
    spans: Callable[[], Sequence[SeenSpan] | None],
) -> None:
    """Wait for the last spans of a round; the auditor reports missing ones."""

    def is_traced() -> bool:
        facts = Facts(fed=(), records=records, strikes=strikes, spans=spans())
        return next(missing(facts), None) is None

    with suppress(TimeoutError):
        await wait_until(is_traced, timeout_s=_SPANS_S, every_s=0.5)


def _is_near(facts: Facts, record: TopicRecord) -> bool:
    return any(
        strike.at - _NEAR_MS <= record.at <= strike.at + strike.seconds * 1000 + _NEAR_MS
        for strike in facts.strikes
    )


def _of_pages(facts: Facts) -> Iterator[TopicRecord]:
    """Yield the records of pages that have a result, or have failed."""
    for record in facts.records:
        if record.topic == RESULTS or record.value.get("event") == "page_failed":
            yield record


LAWS: Mapping[str, Callable[[Facts], Iterator[str]]] = {
    "each page is one trace": each_page_is_one_trace,
    "traces are connected": traces_are_connected,
    "results are traced": missing,
}
