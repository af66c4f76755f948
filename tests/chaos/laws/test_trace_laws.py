"""Laws of traces: each is found broken by facts that break it, and by those only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.laws.good_facts import GOOD, event, result
from crawlstream_chaos.facts.facts import Facts, Strike
from crawlstream_chaos.facts.trace_collector import SeenSpan
from crawlstream_chaos.laws.auditor import audit
from crawlstream_chaos.laws.traces import LAWS

PAGE, OTHER, UNSAMPLED = f"{1:032x}", f"{2:032x}", "f" * 32
ONE_TRACE, CONNECTED, TRACED = LAWS
FIRST, AGAIN, INTAKE = "a" * 16, "b" * 16, "c" * 16


def span(name: str, parent: str = "", own: str = "", **about: Any) -> SeenSpan:
    """A span of the page."""
    where = "pipeline" if name.startswith(("stage.", "write")) else "crawler"
    seen = SeenSpan(where, name, PAGE, own or f"{hash((name, parent)) & (2**64 - 1):016x}", parent,
                    1, 2, "", {"crawlstream.id": PAGE})  # fmt: skip
    return seen._replace(**about)


def page(own: str, outcome: str = "done") -> SeenSpan:
    """The span of an attempt."""
    attributes = {"crawlstream.id": PAGE, "crawlstream.outcome": outcome}
    return span("page", INTAKE, own, attributes=attributes)


def came(at: float, name: str = PAGE, by: str = AGAIN, trace: str = "") -> Any:
    """The result of a page, by an attempt."""
    header: dict[str, Any] = {}
    if name != UNSAMPLED or trace:
        header = {"traceparent": f"00-{trace or name}-{by}-01"}
    return result(1, at, key=name, id=name, **header)


# The first attempt was killed when it had published: its spans are lost.
RESULTS = [came(2_000, by=FIRST), came(3_000), came(3_100, UNSAMPLED)]
SPANS = [
    *(span("intake", "", INTAKE), span("wait", INTAKE), page(AGAIN)),
    *(span("fetch", AGAIN), span("settle", AGAIN)),
    *(span("stage.page", FIRST), span("write", FIRST), span("write", AGAIN)),
]
FACTS = replace(GOOD, records=RESULTS, spans=SPANS, strikes=[])


def found(facts: Facts) -> set[str]:
    """Return the laws that are broken."""
    return {name for name, law in LAWS.items() if list(law(facts))}


def test_spans_that_a_killed_process_has_lost_break_no_law() -> None:
    """Accepts lost spans of a killed process, rounds without traces, and pages of other rounds."""
    assert found(FACTS) == set()
    assert not found(replace(FACTS, spans=None))
    assert LAWS.keys() <= {violation.law for violation in audit(broken_facts())}
    foreign = span("fetch", FIRST, trace_id=OTHER, attributes={})
    assert not found(replace(FACTS, spans=[*SPANS, foreign]))


def broken_facts() -> Facts:
    """Return facts that break each law."""
    wrong = span("fetch", "d" * 16, trace_id=OTHER)
    return replace(
        FACTS, records=[*RESULTS, came(4_000, OTHER)], spans=[*SPANS, wrong, span("parse", FIRST)]
    )


def more(*spans: SeenSpan) -> Callable[[], Facts]:
    """Return facts with further spans."""
    return lambda: replace(FACTS, spans=[*SPANS, *spans])


PLANTED: dict[str, tuple[Callable[[], Facts], str]] = {
    "a result without its trace": (
        lambda: replace(FACTS, records=[*RESULTS[:1], result(1, 3_000, key=PAGE, id=PAGE)]),
        ONE_TRACE,
    ),
    "a result with the trace of another": (
        lambda: replace(FACTS, records=[*RESULTS, came(3_000, trace=OTHER)]),
        ONE_TRACE,
    ),
    "a result that should have none": (
        lambda: replace(FACTS, records=[*RESULTS, came(3_000, UNSAMPLED, trace=UNSAMPLED)]),
        ONE_TRACE,
    ),
    "an attempt in a trace of its own": (
        more(page(FIRST)._replace(trace_id="9" * 32)),
        ONE_TRACE,
    ),
    "a span of a page that is not sampled": (
        more(span("page", "", trace_id=UNSAMPLED, attributes={"crawlstream.id": UNSAMPLED})),
        ONE_TRACE,
    ),
    "a step whose page was never made": (more(span("fetch", FIRST)), CONNECTED),
    "a write below an attempt that nobody made": (more(span("write", "d" * 16)), CONNECTED),
    "attempts below different spans": (more(page(FIRST)._replace(parent_id="")), CONNECTED),
    "an intake that is not above its page": (
        more(span("intake", "", "d" * 16)),
        CONNECTED,
    ),
    "two spans with one id": (
        more(span("settle", AGAIN)._replace(begin=5, end=9)),
        CONNECTED,
    ),
    "a result of which no span says that it is done": (
        lambda: replace(FACTS, spans=[*SPANS[:2], page(AGAIN, "released"), *SPANS[3:]]),
        TRACED,
    ),
}


@pytest.mark.parametrize("what", PLANTED)
def test_each_fault_is_found(what: str) -> None:
    """Reports each fault by the law that it breaks, and by no other law."""
    facts, law = PLANTED[what]
    assert found(facts()) == {law}


@pytest.mark.parametrize(("away_ms", "is_excused"), [(1_000, True), (60_000, False)])
def test_a_fault_excuses_missing_spans_near_it(away_ms: int, is_excused: bool) -> None:  # noqa: FBT001
    """A killed process loses its last seconds, and no more."""
    strike = Strike(fault="kill", target="crawler-link-1", at=3_000 + away_ms)
    facts = replace(FACTS, spans=[span("intake", "", INTAKE)], strikes=[strike])
    assert found(facts) == (set() if is_excused else {TRACED})


def test_failed_pages_are_one_trace_too() -> None:
    """Their events have no header; their spans name them."""
    failed = event("page_failed", 200, id=OTHER, url="http://a.example/", reason="robots")
    wrong = span("page", "", attributes={"crawlstream.id": OTHER})
    facts = replace(FACTS, records=[*RESULTS, failed], spans=[*SPANS, wrong])
    assert ONE_TRACE in found(facts)
