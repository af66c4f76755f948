"""Output of ``throttle show`` for a domain, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlstream.model.inspection import DomainReport, GateReport
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import Group
from crawlstream_cli.rules.groups import group_rows
from crawlstream_cli.rules.throttle import explanations, standing_rows, why

CALM = DomainReport(
    domain="example.com",
    rule=ThrottleRule(hits=10, window_s=60.0),
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


RULE = ThrottleRule(hits=1, window_s=1)
TABLE = ThrottleTable(
    default=RULE,
    rules={"example.com": RULE, "shop.example.com": RULE, "old.example.net": RULE},
    blacklist=frozenset({"evil.example.com", "example.net"}),
)


def said(report: DomainReport, source: str = "the default") -> dict[str, str]:
    """Return the lines by their names."""
    return dict(standing_rows(report, source))


def test_a_calm_domain_is_told_in_eight_lines() -> None:
    """Rule, source, and that nothing holds it back."""
    assert said(CALM) == {
        "domain": "example.com",
        "rule": "10 per 60 s, evenly, 8 at a time",
        "source": "the default",
        "Crawl-delay": "none known",
        "back-off": "none",
        "in flight": "0",
        "spacing": "6 s, by its rule",
        "next request": "now",
    }


def test_the_group_of_a_domain_is_told_with_its_state() -> None:
    """Its limits, and how many domains wait for it."""
    rule = ThrottleRule(hits=5, window_s=1, moderated=False, concurrency=4)
    gate = GateReport(
        name="=hoster", rule=rule, unreported=0, under_way=4, next_ms=400, waiting=1_212
    )
    assert said(replace(CALM, gate=gate))["group"] == (
        "hoster: 5 per 1 s, in bursts, 4 at a time; 4 in flight, 1,212 domains waiting,"
        " next request in 0.4 s at the earliest"
    )
    idle = replace(gate, under_way=0, next_ms=0, waiting=1)
    assert said(replace(CALM, gate=idle))["group"].endswith("1 domain waiting, next request now")


def test_a_group_is_told_with_what_waits_in_all_partitions() -> None:
    """Requests and domains of both shares; the earliest request, and the longest wait."""
    rule = ThrottleRule(hits=10, window_s=1, moderated=False, concurrency=4)
    share = replace(rule, hits=5, concurrency=2)
    gate = GateReport(
        name="=hoster", rule=share, unreported=0, under_way=2, next_ms=400, waiting=50
    )
    gates = [gate, replace(gate, under_way=1, next_ms=900, waiting=1_000)]
    told = dict(group_rows(Group(rule=rule, members=("a.example", "b.example")), gates))
    assert told == {
        "limits": "10 per 1 s, in bursts, 4 at a time",
        "members": "a.example, b.example",
        "in flight": "3",
        "waiting": "1,050 domains",
        "next request": "in 0.4 s at the earliest",
        "wait": "a domain that comes now waits 200.0 s at least",
        "partitions": "2, with equal shares",
    }
    calm = replace(gate, rule=None, under_way=0, next_ms=0, waiting=0)
    idle = dict(group_rows(Group(rule=rule), [calm]))
    assert (idle["members"], idle["wait"], idle["next request"]) == ("none", "none", "now")


def test_whatever_holds_a_domain_back_is_named() -> None:
    """Its own wishes, requests in flight, and the time of the next one."""
    rows = said(
        replace(
            CALM, strikes=3, unanswered_ms=4_000, crawl_delay_ms=2_500, next_ms=1_250,
            under_way=2, unreported=1,
        )
    )  # fmt: skip
    assert rows["back-off"].startswith("it refused 3 times in a row, for 4 s now")
    assert rows["Crawl-delay"] == "2.5 s between requests"
    assert rows["next request"] == "in 1.2 s at the earliest"
    assert rows["in flight"] == "2, 1 of them not yet confirmed as sent"
    assert "Visit-time" in said(replace(CALM, is_outside_hours=True))["back-off"]
    silent = said(replace(CALM, strikes=1, silences=5))
    assert "did not answer" in silent["back-off"]
    assert "2 connections in a row" in said(replace(CALM, silences=2))["back-off"]


def test_what_is_not_allowed_has_no_next_request() -> None:
    """A blocked domain, and a cluster that no rules have reached."""
    blocked = said(replace(CALM, rule=ThrottleRule(hits=0, window_s=1)))
    assert blocked["rule"] == "blocked"
    assert "next request" not in blocked
    assert "nothing is fetched" in why(None, "example.com")


def test_a_table_knows_what_decides() -> None:
    """The blacklist before any rule, the most specific rule before the default."""
    rule = ThrottleRule(hits=1, window_s=1)
    table = ThrottleTable(default=rule, rules={"a": rule, "b": rule}, blacklist=frozenset({"b"}))
    assert [table.source_of(name) for name in "abc"] == ["own", "blacklist", "default"]
    assert TABLE.source_of("www.example.com") == "above"
    assert TABLE.source_of("old.example.net") == "blacklist"


@pytest.mark.parametrize(
    ("host", "site", "named", "reason"),
    [
        ("example.com", "example.com", "example.com", "its own"),
        ("www.example.com", "example.com", "example.com", "that of example.com, the most specific"),
        ("shop.example.com", "shop.example.com", "shop.example.com", "its own"),
        ("a.b.shop.example.com", "shop.example.com", "shop.example.com", "that of shop.example"),
        ("workshop.example.com", "example.com", "example.com", "that of example.com"),
        ("www.evil.example.com", "evil.example.com", "example.com", "evil.example.com is on the"),
        ("old.example.net", "old.example.net", "old.example.net", "example.net is on the"),
        ("www.example.org", "example.org", None, "the default, for all of example.org"),
        ("127.0.0.1", "127.0.0.1", None, "the default"),
        ("a.bbc.co.uk", "bbc.co.uk", None, "the default, for all of bbc.co.uk"),
    ],
)
def test_the_most_specific_rule_wins(host: str, site: str, named: str | None, reason: str) -> None:
    """A name's rule is for it and for what is below it, unless something below has its own."""
    for place in (host, f"http://{host}:8080/a?b=c"):
        assert (TABLE.site_of(place), TABLE.named_rule(place)) == (site, named)
    assert why(TABLE, host).startswith(reason)


def test_a_rule_for_a_part_of_a_domain_is_explained() -> None:
    """Explains on both sides which requests count separately; others have no explanation."""
    (below,) = explanations(TABLE, "Shop.Example.com.")
    assert below == (
        "shop.example.com and its subdomains are counted separately from the rest of example.com."
    )
    (above,) = explanations(TABLE, "example.com")
    assert above == "Counted separately: evil.example.com, shop.example.com."
    parts = {f"{n:03}.example.com": TABLE.default for n in range(300)}
    (many,) = explanations(replace(TABLE, rules=parts), "example.com")
    assert many.endswith(", 018.example.com, 019.example.com and 281 more.")
    (other,) = explanations(TABLE, "www.example.com")
    assert other.startswith("www.example.com is counted as part of example.com; its rule: that of")
    assert not [*explanations(TABLE, "default"), *explanations(TABLE, None)]
    assert not explanations(TABLE, "example.org")


def test_the_spacing_is_told_with_its_source() -> None:
    """The longest of rule, Crawl-delay and latency; a back-off is above all."""
    gentle = replace(
        CALM,
        rule=ThrottleRule(hits=30, window_s=1.0, moderated=False, gentle=0.5),
        latency_ms=210,
        lowest_latency_ms=180,
        gentle_ms=420,
    )
    assert said(gentle)["spacing"] == "0.42 s, by its latency"
    assert said(gentle)["latency"] == "210 ms to the first byte; at its lowest: 180 ms"
    assert said(replace(gentle, gentle_ms=30))["spacing"] == "0.0333 s, by its rule"
    new = said(replace(gentle, latency_ms=0, lowest_latency_ms=0, gentle_ms=0))
    assert (new["latency"], new["spacing"]) == ("not known yet", "0.0333 s, by its rule")
    few = said(replace(gentle, lowest_latency_ms=0))
    assert few["latency"].endswith("at its lowest: not known yet")
    delayed = replace(gentle, crawl_delay_ms=5_000)
    assert said(delayed)["spacing"] == "5 s, by its robots.txt"
    assert said(replace(delayed, not_before_ms=7_000))["spacing"] == "7 s, by its own answers"
    resting = replace(delayed, not_before_ms=7_000, is_outside_hours=True)
    assert said(resting)["spacing"] == "7 s, by its robots.txt"
    bursts = replace(CALM, rule=ThrottleRule(hits=30, window_s=1.0, moderated=False))
    assert said(bursts)["spacing"] == "0 s, by its rule"
    assert "latency" not in said(CALM)
