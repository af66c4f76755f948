"""Views of values for programs: fields, names, and that all of it can be JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import orjson

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport, GateReport
from crawlstream.model.process import Process
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.web.throttle_groups import Group, Groups
from crawlstream.wire import views

_CRAWL = CrawlState(
    crawl=CrawlKey("link", "app", "spring"),
    run=2,
    state="paused",
    started_at=1.0,
    last_activity=2.0,
    expires=0,
    admitted=10,
    queued=3,
    delayed=1,
    held=1,
    done=4,
    failed=1,
    redirected=0,
    stopped=0,
    expired=0,
    failed_by_reason={"dns": 1},
    domains=[DomainBacklog("example.com", 4, 90, 70)],
)


def _told(view: views.View) -> dict[str, object]:
    told: dict[str, object] = orjson.loads(orjson.dumps(view))
    return told


def test_a_crawl_has_its_ids_beside_its_ledger() -> None:
    """Every field of the state is shown once, and derived ones, too."""
    told = _told(views.crawl(_CRAWL))
    ids = {"spiderid": "link", "appid": "app", "crawlid": "spring"}
    derived = {
        "pending": 4,
        "residual": 0,
        "held_back": {"paused": 4},
        "problem": None,
        "waits_for": [],
    }
    assert told.items() >= {**ids, **derived}.items()
    known = {field.name for field in fields(CrawlState)} - {
        "crawl",
        "missing_partitions",
        "in_transit",
        "refused_by_family",
    }
    assert told.keys() == known | {
        "refused_families",
        *ids,
        *derived,
    }
    assert told["domains"] == [
        {
            "domain": "example.com",
            "total": 4,
            "high_priority": 90,
            "low_priority": 70,
            "is_blocked": False,
        }
    ]


def test_a_table_has_its_default_beside_its_domains() -> None:
    """A domain that is called ``default`` is not to be mistaken for it; names are sorted."""
    rule = ThrottleRule(hits=3, window_s=1.5, moderated=False)
    rules = {"b.test": rule, "a.test": rule}
    table = ThrottleTable(
        default=ThrottleRule(hits=10, window_s=60),
        rules=rules,
        blacklist=frozenset({"z", "y"}),
        groups=Groups({"g": Group(rule=rule, members=("b.test", "a.test"))}),
    )
    told = _told(views.throttle_table(table))
    shown: dict[str, Any] = {"hits": 3, "window": 1.5, "scale": 1.0, "concurrency": 8, "render": 30}
    shown |= {"moderated": False, "paused_until": 0, "gentle": 0}
    assert told == {
        "default": {**shown, "hits": 10, "window": 60, "moderated": True},
        "domains": {"a.test": shown, "b.test": shown},
        "blacklist": ["y", "z"],
        "groups": {
            "g": {"hits": 3, "window": 1.5, "concurrency": 8, "members": ["a.test", "b.test"]}
        },
    }
    assert list(told["domains"]) == ["a.test", "b.test"]  # type: ignore[call-overload]


def test_a_domain_tells_what_its_rule_allows() -> None:
    """Its hits after scaling, and nothing of a rule that is not known yet."""
    zero: dict[str, Any] = dict.fromkeys(
        (field.name for field in fields(DomainReport) if field.name not in {"domain", "rule"}), 0
    )
    rule = ThrottleRule(hits=3, window_s=1.5, moderated=False)
    told = _told(views.domain(DomainReport(domain="a.test", rule=rule, **zero)))
    shown = {"hits": 3, "window_s": 1.5, "is_moderated": False, "concurrency": 8, "render": 30}
    shown |= {"paused_until": 0, "gentle": 0}
    spacing = {"spacing_ms": 0, "spacing_by": "rule"}
    assert told == {"domain": "a.test", **zero, **spacing, **shown}
    told = _told(views.domain(DomainReport(domain="a.test", rule=None, **zero)))
    assert told == {"domain": "a.test", **zero, **spacing, **dict.fromkeys(shown)}
    gate = GateReport(name="=g", rule=rule, unreported=0, under_way=1, next_ms=5, waiting=2)
    told = _told(views.domain(DomainReport(domain="a.test", rule=rule, **{**zero, "gate": gate})))
    assert told["gate"] == {
        "name": "=g",
        "rule": {"hits": 3, "window": 1.5, "concurrency": 8},
        "unreported": 0,
        "under_way": 1,
        "next_ms": 5,
        "waiting": 2,
    }
    slow = DomainReport(domain="a.test", rule=rule, **{**zero, "gentle_ms": 700})
    told = _told(views.domain(slow))
    assert (told["spacing_ms"], told["spacing_by"]) == (700, "gentle")
    assert "0.7 s apart by its latency" in views.limits_of(slow)


def test_a_process_tells_all_that_it_says_of_itself() -> None:
    """Every field of it, under its own name; pipelines have a view of their own."""
    told = _told(views.process(Process(kind="crawler", spider="link", values={"MAX_DEPTH": "9"})))
    assert told.keys() == {field.name for field in fields(Process)} - {"pipelines"} | {"name"}
    assert (told["kind"], told["values"]) == ("crawler", {"MAX_DEPTH": "9"})
    activity: Any = told["activity"]
    assert "tail" not in activity
