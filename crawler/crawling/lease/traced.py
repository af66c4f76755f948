"""Leases with traces: the spans of a sampled page, made when the frontier has taken its end."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from crawling.lease.leases import Leases
from crawling.lease.partition import PartitionLeases
from crawling.lease.pending_report import End
from crawling.page.page import Page, Phase
from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Outcome, Release, Requeue, Settle
from crawlstream_traces.context import (
    Span,
    SpanPlace,
    place_of_page,
    shown_url,
    span_id_of,
    trace_in,
    traceparent_of,
)
from crawlstream_traces.sender import SpanSender


class Sampling(NamedTuple):
    """Which pages have traces."""

    share: float
    """Share of all pages."""
    failures: bool = False
    """True if each page that has failed has one, too; that is known at its end."""


@dataclass(slots=True)
class PageTrace:
    """Times of a sampled page that the page itself does not carry, by the clock of its leases."""

    place: SpanPlace
    span_id: str
    """Id of the span ``page``: one for each lease."""
    epoch_ns: int
    """Time by the wall clock at which the clock of the leases was 0."""
    screen_at: float = 0
    """When its way to robots.txt began; 0: it has not, or was not noted."""
    screened_at: float = 0
    """When it was allowed to be fetched; 0: it was not, or was not noted."""
    publish_at: float = 0
    """When its result was handed to Kafka; 0: it was not."""
    published_at: float = 0
    """When Kafka acknowledged it; 0: it did not."""
    ended_at: float = 0
    outcome: str = "stale"
    """Its end; ``stale``: another worker has the page."""
    reason: str = ""

    @property
    def header(self) -> str:
        """Return the ``traceparent`` of its result."""
        return traceparent_of(self.place.trace_id, self.span_id)

    def ns(self, at: float) -> int:
        """Return a time in epoch nanoseconds."""
        return self.epoch_ns + int(at * 1e9)


class TracedLeases(Leases):
    """Leases of a process with traces: decides which pages are sampled, and times their steps."""

    def __init__(self, *about: Any, sender: SpanSender, sampling: Sampling, **further: Any) -> None:
        super().__init__(*about, **further)
        self._sender = sender
        self._sampling = sampling
        self._traces: dict[Page, PageTrace] = {}

    def admit(self, lease: Lease) -> Page:
        """Take on a lease, which may be of a sampled page."""
        page = super().admit(lease)
        if place := place_of_page(page.id, lease.entry, self._sampling.share):
            self._begin(page, place)
        return page

    def _begin(self, page: Page, place: SpanPlace) -> None:
        lease = page.lease
        span_id = span_id_of(place.trace_id, page.id, str(lease.partition), lease.token)
        epoch_ns = time.time_ns() - int(self.clock() * 1e9)
        self._traces[page] = PageTrace(place, span_id, epoch_ns)

    def traced(self, page: Page) -> PageTrace | None:
        """Return the trace of a page; None: it is not sampled."""
        return self._traces.get(page)

    def trace_of(self, page_id: str) -> PageTrace | None:
        """Return the trace of the page that a record belongs to; None: the page is not sampled."""
        page = self.by_id(page_id)
        return self._traces.get(page) if page else None

    def settle(self, page: Page, outcome: Outcome, reason: str) -> None:
        """End a page; its spans wait until the frontier knows it.

        One that has failed may be sampled only now: it is alone in its trace, without its intake.
        """
        if page.is_open:
            self._note_end(page, outcome, reason)
        super().settle(page, outcome, reason)

    def _note_end(self, page: Page, outcome: Outcome, reason: str) -> None:
        is_found = outcome is Outcome.FAILED and self._sampling.failures
        if is_found and page not in self._traces:
            self._begin(page, SpanPlace(page.id, ""))
        if trace := self._traces.get(page):
            trace.outcome, trace.reason = outcome.value, reason

    def spilled(self, page: Page, end: Settle | Release) -> None:
        """End a page whose links Kafka has, or give it back."""
        if (trace := self._traces.get(page)) and isinstance(end, Release):
            trace.outcome = "released"
        super().spilled(page, end)

    def _end(self, page: Page, end: End) -> None:
        trace = self._traces.get(page) if page.is_open else None
        if trace and not isinstance(end, Settle):
            trace.outcome = "requeued" if isinstance(end, Requeue) else "released"
        super()._end(page, end)

    def _move(self, page: Page, phase: Phase) -> None:
        super()._move(page, phase)
        trace = None if page.is_open else self._traces.get(page)
        if trace and not trace.ended_at:
            trace.ended_at = self.clock()
            if phase is Phase.STALE:
                trace.outcome = "stale"

    def _forget(self, held: PartitionLeases, token: str) -> None:
        page = held.pages.get(token)
        super()._forget(held, token)
        if page and (trace := self._traces.pop(page, None)) and not page.is_lent:
            self._sender.add(*_spans(page, trace, self.clock()))


def _spans(page: Page, trace: PageTrace, now: float) -> Iterator[Span]:
    """Yield the span of a page, then those of its steps, and of the time before."""
    trace_id, ended_at = trace.place.trace_id, trace.ended_at or now
    yield from _wait(page, trace)
    yield Span(
        name="page",
        trace_id=trace_id,
        span_id=trace.span_id,
        parent_id=trace.place.span_id,
        start_ns=trace.ns(page.admitted_at),
        end_ns=trace.ns(now),
        attributes=_attributes(page, trace),
        error=trace.reason if trace.outcome == Outcome.FAILED.value else "",
    )
    for name, begin, end in _steps(page, trace, ended_at, now):
        yield Span(
            name=name,
            trace_id=trace_id,
            span_id=span_id_of(trace.span_id, name),
            parent_id=trace.span_id,
            start_ns=trace.ns(begin),
            end_ns=trace.ns(end),
            attributes=_of_response(page) if name == "fetch" else {},
        )


def _wait(page: Page, trace: PageTrace) -> Iterator[Span]:
    """Yield the span of the time until a page was leased, if its entry stores when it came."""
    lease, stored = page.lease, trace_in(page.lease.entry.trace)
    if stored and not lease.entry.redirect_urls and lease.attempt == 1:
        yield Span(
            name="wait",
            trace_id=trace.place.trace_id,
            span_id=span_id_of(trace.span_id, "wait"),
            parent_id=trace.place.span_id,
            start_ns=stored.came_ms * 1_000_000,
            end_ns=trace.ns(page.admitted_at),
        )


def _steps(
    page: Page, trace: PageTrace, ended_at: float, now: float
) -> Iterator[tuple[str, float, float]]:
    """Yield name, begin and end of the steps that a page has come to."""
    started_at, is_fetched = page.admitted_at, bool(page.left_at)
    if trace.screen_at:
        started_at, is_fetched = trace.screened_at or ended_at, is_fetched and trace.screened_at > 0
        yield "robots", trace.screen_at, started_at
    if is_fetched:
        yield "start", started_at, page.left_at
        received_at = page.left_at + page.latency_ms / 1000 if page.received_at else ended_at
        yield "fetch", page.left_at, received_at
        if page.received_at and page.status:
            yield "parse", received_at, trace.publish_at or ended_at
    if trace.publish_at:
        yield "publish", trace.publish_at, trace.published_at or ended_at
    if page.phase is not Phase.STALE:
        yield "settle", ended_at, now


def _attributes(page: Page, trace: PageTrace) -> dict[str, str | int]:
    lease = page.lease
    found: dict[str, str | int] = {
        "url.full": shown_url(lease.entry.url),
        "crawlstream.id": page.id,
        "crawlstream.appid": lease.crawl.appid,
        "crawlstream.crawlid": lease.crawl.crawlid,
        "crawlstream.spiderid": lease.crawl.spiderid,
        "crawlstream.run": lease.run,
        "crawlstream.domain": lease.domain,
        "crawlstream.depth": lease.entry.depth,
        "crawlstream.attempt": lease.attempt,
        "crawlstream.outcome": trace.outcome,
    }
    if trace.reason:
        found["crawlstream.reason"] = trace.reason
    return found


def _of_response(page: Page) -> dict[str, str | int]:
    found: dict[str, str | int] = {"http.request.method": page.lease.entry.method}
    if page.status:
        found["http.response.status_code"] = page.status
    if page.head_at:
        found["crawlstream.first_byte_ms"] = int((page.head_at - page.left_at) * 1000)
    if page.body_bytes:
        found["crawlstream.body_bytes"] = page.body_bytes
    return found
