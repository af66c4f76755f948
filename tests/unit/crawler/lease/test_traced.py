"""Spans of sampled pages, by how their leases end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

from crawling.lease.traced import Sampling, TracedLeases
from crawling.page.page import Page
from crawling.robots.timed_screen import TracedScreening
from crawlstream.model.crawl import Entry, Profile
from crawlstream.model.effects import Outcome
from crawlstream_traces.context import Span, span_id_of, stored_trace
from crawlstream_traces.sender import SpanSender
from support.crawler.leases import lease


class _Nowhere:
    def send(self, spans: Sequence[Span]) -> bool:
        """Take nothing: no sender runs."""
        raise NotImplementedError

    def stop(self) -> None:
        """Nothing is being sent."""


class Ground:
    """Leases with traces, by a clock that the test moves."""

    def __init__(self, share: float = 1, *, failures: bool = False) -> None:
        self.now = 100.0
        self.sender = SpanSender(_Nowhere())
        self.leases = TracedLeases(
            *(4, lambda: None, lambda: self.now),
            sender=self.sender,
            sampling=Sampling(share, failures),
        )
        self.leases.note_answer(0, self.now, 1)

    def admit(self, trace: str | None = None, **about: Any) -> Page:
        """Take on a page, which its client may trace."""
        one = lease(
            entry=Entry(url="http://a.example/x?key=1", origin="in-0-1", trace=trace, **about),
            profile=Profile(cookie="session=1", headers={"Authorization": "key"}),
            issued_at=self.now,
        )
        return self.leases.admit(one)

    def screen(self, page: Page, *, is_allowed: bool) -> None:
        """Have robots.txt allow a page, or not, after 0.3 s."""
        ground = self

        class Slow:
            def screen(self, pages: Iterable[Page], let_through: Callable[[Page], None]) -> None:
                """Decide on the page."""
                ground.now += 0.3
                for each in pages if is_allowed else ():
                    let_through(each)

        TracedScreening(Slow(), self.leases).screen([page], lambda _: None)

    def fetch(self, page: Page) -> None:
        """Send its request after 0.1 s; the response takes 0.2 s."""
        self.now += 0.1
        self.leases.set_out(page, page.lease.entry.url)
        self.leases.depart(page)
        self.now += 0.2
        page.status = 200
        self.leases.receive(page)

    def report(self) -> None:
        """The frontier takes the ends a second later."""
        self.now += 1
        self.leases.reported(0, self.leases.of(0).take_report(), ())
        self.leases.note_answer(0, self.now, 1)

    @property
    def spans(self) -> list[Span]:
        """Spans that wait to be sent."""
        return list(self.sender._waiting)

    def span(self, name: str) -> Span:
        """Return the span of a name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found


def test_a_page_has_a_span_for_each_step() -> None:
    """The spans follow each other, below the page's, and are made when the frontier has its end."""
    ground = Ground()
    page = ground.admit()
    trace = ground.leases.trace_of(page.id)
    assert trace is not None
    ground.fetch(page)
    ground.now += 0.3
    trace.publish_at, trace.published_at = ground.now, ground.now + 0.4
    ground.now += 0.4
    ground.leases.settle(page, Outcome.DONE, "2xx")
    assert ground.spans == []
    ground.report()
    lengths = {s.name: round((s.end_ns - s.start_ns) / 1e9, 2) for s in ground.spans}
    assert lengths == {
        "page": 2.0, "start": 0.1, "fetch": 0.2, "parse": 0.3, "publish": 0.4, "settle": 1.0,
    }  # fmt: skip
    whole = ground.span("page")
    assert trace.header == f"00-{page.id}-{whole.span_id}-01"
    assert {s.parent_id for s in ground.spans if s is not whole} == {whole.span_id}
    assert whole.attributes["url.full"] == "http://a.example/x"
    told = repr([dict(span.attributes) for span in ground.spans])
    assert not [word for word in ("key", "session", "Authorization") if word in told]
    assert ground.leases.trace_of(page.id) is None


def test_the_outcome_is_that_of_the_lease() -> None:
    """Names pages that fail, are tried again, are given back, or are another worker's now."""
    ground = Ground()
    page = ground.admit()
    ground.leases.settle(page, Outcome.FAILED, "dns_error")
    ground.leases.release(page)
    ground.report()
    assert ground.span("page").error == "dns_error"
    assert ground.span("page").attributes["crawlstream.outcome"] == "failed"

    for end, outcome in (("requeue", "requeued"), ("release", "released"), ("lose", "stale")):
        ground = Ground()
        page = ground.admit()
        if end == "requeue":
            ground.leases.requeue(page, 0)
        elif end == "release":
            ground.leases.release(page)
        else:
            assert ground.leases.lose(0, [page.token]) == [page]
        ground.report()
        assert ground.span("page").attributes["crawlstream.outcome"] == outcome
        assert ground.span("page").error == ""


def test_each_lease_has_a_span_of_its_own() -> None:
    """Leases of a page share its trace and not its span: the first one may have been reported."""
    ground, names = Ground(), set()
    for token in ("a", "b"):
        page = ground.leases.admit(replace(ground.admit().lease, token=token))
        trace = ground.leases.trace_of(page.id)
        assert trace is not None
        assert trace.place.trace_id == page.id
        names.add(trace.span_id)
    assert len(names) == 2
    assert span_id_of("a", "b") != span_id_of("ab", "")


def test_a_page_that_is_not_sampled_has_no_spans() -> None:
    """Notes nothing of it."""
    ground = Ground(share=0)
    page = ground.admit()
    assert ground.leases.trace_of(page.id) is None
    ground.fetch(page)
    ground.leases.settle(page, Outcome.DONE, "2xx")
    ground.report()
    assert ground.spans == []


def test_the_time_for_robots_txt_is_a_span() -> None:
    """``start`` follows it; a page that pays for robots.txt, or is forbidden, has no fetch."""
    ground = Ground()
    page = ground.admit()
    ground.screen(page, is_allowed=True)
    ground.fetch(page)
    ground.leases.settle(page, Outcome.DONE, "2xx")
    ground.report()
    robots, start = ground.span("robots"), ground.span("start")
    assert (robots.end_ns - robots.start_ns) // 1_000_000 in {299, 300}
    assert robots.end_ns == start.start_ns
    assert robots.parent_id == ground.span("page").span_id

    ground = Ground()
    buyer = ground.admit()
    ground.screen(buyer, is_allowed=False)
    ground.fetch(buyer)
    ground.leases.release_buyer(buyer, 0)
    ground.report()
    assert [span.name for span in ground.spans] == ["page", "robots", "settle"]
    assert ground.span("robots").end_ns == ground.span("settle").start_ns


def test_the_wait_of_a_clients_seed_is_a_span() -> None:
    """From its record to the lease of its first attempt; its redirects and links have none."""
    parent = f"00-{'4' * 32}-{'7' * 16}-01"
    came_ms = time.time_ns() // 1_000_000 - 5_000
    ground = Ground(share=0)
    page = ground.admit(stored_trace(parent, came_ms))
    ground.leases.release(page)
    ground.report()
    wait, whole = ground.span("wait"), ground.span("page")
    assert (wait.trace_id, wait.parent_id) == ("4" * 32, whole.parent_id)
    assert (wait.start_ns, wait.end_ns) == (came_ms * 1_000_000, whole.start_ns)

    ground = Ground()
    for trace, redirects in ((stored_trace(parent, came_ms), ("http://a.example/",)), (None, ())):
        ground.leases.release(ground.admit(trace, redirect_urls=redirects))
        ground.report()
    assert [span.name for span in ground.spans].count("page") == 2
    assert not [span for span in ground.spans if span.name == "wait"]


def test_a_page_that_fails_may_be_sampled_at_its_end() -> None:
    """Makes spans of failures only, each the first of the trace of its page."""
    ground = Ground(share=0, failures=True)
    for outcome in (Outcome.DONE, Outcome.FAILED):
        page = ground.admit()
        ground.fetch(page)
        ground.leases.settle(page, outcome, "http_404")
        ground.leases.settle(page, Outcome.FAILED, "twice")
        ground.report()
    assert [s.name for s in ground.spans] == ["page", "start", "fetch", "parse", "settle"]
    whole = ground.span("page")
    assert (whole.trace_id, whole.parent_id, whole.error) == (page.id, "", "http_404")


def test_a_request_that_is_no_page_has_no_spans() -> None:
    """A robots.txt of another site is fetched by a lease of its own, which ends without a page."""
    ground = Ground()
    lent = ground.admit()
    lent.is_lent = True
    ground.leases.lose(0, [lent.token])
    assert ground.spans == []
