"""What ``throttle show`` says of a domain, in words."""

from __future__ import annotations

from dataclasses import replace

from crawlstream.cli.throttle import standing_rows
from crawlstream.model.inspection import DomainReport
from crawlstream.model.throttle import ThrottleRule, ThrottleTable

CALM = DomainReport(
    domain="example.com",
    hits=10,
    window_s=60.0,
    is_moderated=True,
    concurrency=8,
    unreported=0,
    under_way=0,
    not_before_ms=0,
    next_ms=0,
    strikes=0,
    silences=0,
    unanswered_ms=0,
    crawl_delay_ms=0,
    queues=(),
)


def said(report: DomainReport, source: str = "default") -> dict[str, str]:
    """The lines by name."""
    return dict(standing_rows(report, source))


def test_a_calm_domain_is_told_in_six_lines() -> None:
    """Rule, source, and that nothing holds it back."""
    assert said(CALM) == {
        "domain": "example.com",
        "rule": "10 in 60 s, evenly, 8 at a time",
        "source": "the default",
        "Crawl-delay": "none is known",
        "back-off": "none",
        "in flight": "0",
        "next request": "now",
    }


def test_whatever_holds_a_domain_back_is_named() -> None:
    """Its own wishes, what is under way, and when it may be asked next."""
    rows = said(
        replace(
            CALM, strikes=3, unanswered_ms=4_000, crawl_delay_ms=2_500, next_ms=1_250,
            under_way=2, unreported=1,
        )
    )  # fmt: skip
    assert rows["back-off"].startswith("it refused 3 times in a row, for 4 s now")
    assert rows["Crawl-delay"] == "2.5 s between requests"
    assert rows["next request"] == "in 1.2 s at the earliest"
    assert rows["in flight"] == "2, 1 of them not reported as sent"
    silent = said(replace(CALM, strikes=1, silences=5))
    assert "did not answer" in silent["back-off"]
    assert "2 requests in a row" in said(replace(CALM, silences=2))["back-off"]


def test_what_is_not_allowed_has_no_next_request() -> None:
    """A blocked domain, and a cluster that no rules have reached."""
    blocked = said(replace(CALM, hits=0), "blacklist")
    assert (blocked["rule"], blocked["source"]) == ("nothing is allowed", "on the blacklist")
    assert "next request" not in blocked
    unknown = said(replace(CALM, hits=None, window_s=None), "none")
    assert "nothing is fetched" in unknown["source"]


def test_a_table_knows_what_decides() -> None:
    """The blacklist before a rule of its own, that before the default."""
    rule = ThrottleRule(hits=1, window_s=1)
    table = ThrottleTable(default=rule, rules={"a": rule, "b": rule}, blacklist=frozenset({"b"}))
    assert [table.source_of(name) for name in "abc"] == ["own", "blacklist", "default"]
