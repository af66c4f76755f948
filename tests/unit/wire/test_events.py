"""Events and rejections say what happened, completely."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import replace
from typing import Any

import orjson
import pytest

from crawlstream import __version__
from crawlstream.model.crawl import CrawlKey, FiringKey
from crawlstream.model.event import (
    CrawlEvent,
    GuardVerdict,
    PageFailed,
    PaymentRequired,
    Rejection,
)
from crawlstream.wire import events, rejects

CRAWL = CrawlKey("link", "app", "job")
COMMON = {"appid": "app", "crawlid": "job", "spiderid": "link", "run": 3, "server_time": 1795251152}


def ending(name: str, **more: Any) -> dict[str, Any]:
    """The record of an event about a crawl."""
    event = CrawlEvent(event=name, crawl=CRAWL, run=3, server_time=1795251152, **more)
    record = orjson.loads(events.encode(event))
    assert isinstance(record, dict)
    return record


def test_a_beginning_names_its_run() -> None:
    """Names the run of a beginning, without counters."""
    assert ending("crawl_started") == {"event": "crawl_started", **COMMON}


def test_what_a_firing_has_fed_says_so() -> None:
    """Names schedule and time of the firing that has fed it."""
    record = ending("crawl_started", firing=FiringKey("nightly", 1795251000))
    assert record["occasion"] == {"schedule": "nightly", "at": 1795251000}


@pytest.mark.parametrize("name", ["crawl_finished", "crawl_stopped", "crawl_expired"])
def test_an_ending_has_the_ledger(name: str) -> None:
    """An object of counters: the sums, and filtered, failed and done pages by reason."""
    record = ending(
        name,
        started_at=1795251000.5,
        counters={"admitted": 4, "done": 2, "failed": 1, "redirected": 1, "bytes": 77},
        reasons={
            "filtered": {"duplicate": 9}, "failed": {"dns": 1}, "done": {"2xx": 2},
            "charged": {"USD": 24_000},
        },
    )  # fmt: skip
    assert record == {
        "event": name,
        **COMMON,
        "started": 1795251000,
        "counters": {
            "admitted": 4,
            "done": 2,
            "failed": 1,
            "redirected": 1,
            "skipped": 0,
            "stopped": 0,
            "expired": 0,
            "bytes": 77,
            "filtered": {"duplicate": 9},
            "failed_by_reason": {"dns": 1},
            "done_by_status": {"2xx": 2},
            "charged": {"USD": "24000"},
        },
    }


def test_an_ending_by_a_budget_names_it() -> None:
    """No other has the field; readers get it back."""
    record = ending("crawl_expired", by="max_seconds")
    assert record["by"] == "max_seconds"
    back = events.decode_crawl_event(orjson.dumps(record))
    assert back is not None
    assert back.by == "max_seconds"


def test_an_ending_counts_domains_with_a_spent_budget() -> None:
    """Counts domains by spent budget, if any, and reads them back."""
    spent = {"domain_max_bytes": 3}
    record = ending("crawl_finished", reasons={"spent_domains": spent})
    assert record["counters"]["spent_domains"] == spent
    back = events.decode_crawl_event(orjson.dumps(record))
    assert back is not None
    assert back.reasons["spent_domains"] == spent
    assert "spent_domains" not in ending("crawl_finished")["counters"]


def test_an_ending_counts_bodies_only_if_some_were_not_kept() -> None:
    """Counts dropped bodies by reason, and reserved pages, if any, and reads both back."""
    reasons = {"dropped": {"noindex": 2, "reserved": 1}, "reserved": {"reserved": 4}}
    record = ending("crawl_finished", reasons=reasons)
    assert record["counters"]["dropped"] == {"noindex": 2, "reserved": 1}
    assert record["counters"]["reserved"] == 4
    back = events.decode_crawl_event(orjson.dumps(record))
    assert back is not None
    assert {name: back.reasons[name] for name in reasons} == reasons
    record = ending("crawl_finished", reasons={"dropped": {}, "reserved": {}})
    assert not {"dropped", "reserved"} & record["counters"].keys()
    back = events.decode_crawl_event(orjson.dumps(record))
    assert back is not None
    assert back.reasons["reserved"] == {}


def test_an_ending_names_the_families_of_which_most_was_refused() -> None:
    """Twenty of them, the highest counts first; readers get them back."""
    counts = {f"guard_parameter a.example ?p{n}": n for n in range(1, 30)}
    record = ending("crawl_finished", reasons={"refused": counts | {"unreadable": 99}})
    named = record["counters"]["refused_families"]
    assert named[0] == {
        "site": "a.example",
        "family": "?p29",
        "reason": "guard_parameter",
        "count": 29,
    }
    assert [each["count"] for each in named] == [*range(29, 9, -1)]
    back = events.decode_crawl_event(orjson.dumps(record))
    assert back is not None
    assert back.reasons["refused"] == {name: n for name, n in counts.items() if n > 9}
    assert "refused_families" not in ending("crawl_finished", reasons={})["counters"]


def test_a_failed_page_says_which_and_why() -> None:
    """Names a failed page, its reason, and the id that its result would have."""
    event = PageFailed(
        id="0" * 32,
        crawl=CRAWL,
        run=3,
        server_time=1795251152,
        url="http://a.example/x",
        reason="dns",
        attempts=4,
        depth=1,
        parent_url="http://a.example/",
    )
    told = orjson.loads(events.encode(replace(event, detail="ValueError: x", uuid="u")))
    assert (told["detail"], told["uuid"]) == ("ValueError: x", "u")
    assert orjson.loads(events.encode(event)) == {
        "event": "page_failed",
        **COMMON,
        "id": "0" * 32,
        "url": "http://a.example/x",
        "reason": "dns",
        "attempts": 4,
        "depth": 1,
        "parent": "http://a.example/",
    }


def test_an_origin_with_a_price_is_reported_with_its_first_page() -> None:
    """Fields that the site does not name are null."""
    event = PaymentRequired(
        id="0" * 32,
        crawl=CRAWL,
        run=3,
        server_time=1795251152,
        origin="http://a.example:80",
        url="http://a.example/x",
        price="USD 0.01",
        error=None,
    )
    assert orjson.loads(events.encode(event)) == {
        "event": "payment_required",
        **COMMON,
        "id": "0" * 32,
        "origin": "http://a.example:80",
        "url": "http://a.example/x",
        "price": "USD 0.01",
        "error": None,
    }


def test_a_verdict_names_its_site_and_its_counters() -> None:
    """It belongs to no crawl."""
    event = GuardVerdict(
        server_time=1795251152,
        site="a.example",
        family="?sort",
        before="open",
        after="last",
        why={"pages": 16, "heavy": 15},
        mode="watch",
    )
    assert orjson.loads(events.encode_verdict(event)) == {
        "event": "guard_verdict",
        "server_time": 1795251152,
        "site": "a.example",
        "family": "?sort",
        "from": "open",
        "to": "last",
        "why": {"pages": 16, "heavy": 15},
        "by": "learned",
        "mode": "watch",
    }
    assert events.decode_crawl_event(events.encode_verdict(event)) is None
    assert events.decode_notable(events.encode_verdict(event)) is None


def test_a_rejection_keeps_the_record_whole() -> None:
    """The raw bytes come back from base64 as they were, whatever they were."""
    rejection = Rejection(
        reason="not_utf8",
        errors=["$: the record is not UTF-8 text"],
        raw=b"\xff\x00{",
        topic="demo.incoming",
        partition=2,
        offset=17,
        timestamp_ms=1795251152000,
    )
    record = orjson.loads(rejects.encode(rejection))
    assert b64decode(record.pop("raw")) == b"\xff\x00{"
    assert record == {
        "reason": "not_utf8",
        "errors": ["$: the record is not UTF-8 text"],
        "topic": "demo.incoming",
        "partition": 2,
        "offset": 17,
        "timestamp": 1795251152000,
        "version": __version__,
    }


@pytest.mark.parametrize("raw", [None, b""])
def test_a_rejection_of_nothing_has_null(raw: bytes | None) -> None:
    """An empty value has 0 bytes."""
    rejection = Rejection(reason="empty", errors=["$: the record has no value"], raw=raw)
    assert orjson.loads(rejects.encode(rejection))["raw"] is None


def test_a_huge_rejection_is_cut_to_fit_its_topic() -> None:
    """Cuts a huge rejection to fit its topic, and reports its size."""
    raw = b"x" * (rejects.MAX_RAW_BYTES + 1)
    encoded = rejects.encode(Rejection(reason="too_large", errors=["$: too large"], raw=raw))
    record = orjson.loads(encoded)
    assert len(encoded) < 8 * 1024 * 1024
    assert (record["raw_truncated"], record["raw_size"]) == (True, len(raw))
    assert b64decode(record["raw"]) == raw[:-1]
