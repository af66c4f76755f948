"""Replies have the keys and types of the predecessor's, quirks included, and further ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.request import ActionRequest, ZookeeperRequest
from crawlstream.model.state import CrawlState, DomainBacklog
from crawlstream.wire import replies

NOW = 1795251152
CRAWL = CrawlKey("link", "app", "job")
INFO = ActionRequest(name="info", uuid="u", appid="app", spiderid="link", crawlid="job")
INFO_APP = ActionRequest(name="info", uuid="u", appid="app", spiderid="link")
STOP = ActionRequest(name="stop", uuid="u", appid="app", spiderid="link", crawlid="job")


def state(crawlid: str = "job", **changes: Any) -> CrawlState:
    """A running crawl with three pages waiting in one domain."""
    values: dict[str, Any] = {
        "crawl": CrawlKey("link", "app", crawlid),
        "run": 2,
        "state": "running",
        "started_at": 1795251000.25,
        "last_activity": 1795251150.75,
        "expires": 0,
        "admitted": 12,
        "queued": 2,
        "delayed": 1,
        "held": 4,
        "done": 3,
        "failed": 1,
        "redirected": 1,
        "stopped": 0,
        "expired": 0,
        "failed_by_reason": {"dns": 1},
        "filtered_by_reason": {"duplicate": 7},
        "domains": [
            DomainBacklog(domain="127.0.0.5", total=3, high_priority=12, low_priority=10),
            DomainBacklog(domain="empty.example", total=0, high_priority=0, low_priority=0),
        ],
    }
    return CrawlState(**{**values, **changes})


def read(reply: bytes) -> dict[str, Any]:
    """A reply as its client reads it."""
    record = orjson.loads(reply)
    assert isinstance(record, dict)
    return record


def types_of(record: dict[str, Any], *names: str) -> dict[str, type]:
    """The type of some fields, or of all."""
    return {name: type(record[name]) for name in names or record}


def test_info_about_an_application() -> None:
    """Crawls with something waiting, by domain; ``expires`` is a number, and only where it is."""
    crawls = [state("a", expires=1795251752), state("b"), state("idle", queued=0, delayed=0)]
    assert read(replies.info_app(INFO_APP, crawls, server_time=NOW)) == {
        "uuid": "u",
        "appid": "app",
        "spiderid": "link",
        "total_pending": 6,
        "total_domains": 1,
        "total_crawlids": 2,
        "server_time": NOW,
        "crawlids": {
            "a": {
                "total": 3,
                "distinct_domains": 1,
                "domains": {"127.0.0.5": {"total": 3, "high_priority": 12, "low_priority": 10}},
                "expires": 1795251752,
            },
            "b": {
                "total": 3,
                "distinct_domains": 1,
                "domains": {"127.0.0.5": {"total": 3, "high_priority": 12, "low_priority": 10}},
            },
        },
    }


def test_info_says_where_domains_are_left_out() -> None:
    """The key is there only if more wait than a record may hold."""
    app = replies.info_app(INFO_APP, [state("a"), state("b", is_cut=True)], server_time=NOW)
    assert read(app)["domains_truncated"] is True
    crawl = replies.info_crawl(INFO, state(is_cut=True), server_time=NOW)
    assert (read(crawl)["domains_truncated"], read(crawl)["total_pending"]) == (True, 3)


def test_info_about_an_application_without_work() -> None:
    """Empty, not absent."""
    record = read(replies.info_app(INFO_APP, [], server_time=NOW))
    assert record["crawlids"] == {}
    assert (record["total_pending"], record["total_domains"], record["total_crawlids"]) == (0, 0, 0)


def test_info_about_a_crawl() -> None:
    """The predecessor's keys, no ``action``, and the ledger."""
    record = read(replies.info_crawl(INFO, state(), server_time=NOW))
    known = {
        "uuid": "u",
        "appid": "app",
        "crawlid": "job",
        "spiderid": "link",
        "total_pending": 3,
        "total_domains": 1,
        "domains": {"127.0.0.5": {"total": 3, "high_priority": 12, "low_priority": 10}},
        "server_time": NOW,
    }
    ledger = {
        "state": "running",
        "run": 2,
        "admitted": 12,
        "pending": 3,
        "spilled": 0,
        "in_flight": 4,
        "held_back": {},
        "done": 3,
        "redirected": 1,
        "failed": {"dns": 1},
        "skipped": {},
        "filtered": {"duplicate": 7},
        "charged": {},
        "started": 1795251000,
        "last_activity": 1795251150,
        "remember": None,
        "counted": 0,
    }
    assert record == known | ledger


def test_expires_of_a_crawl_is_text() -> None:
    """Returns `expires` of a crawl as text, like the predecessor."""
    record = read(replies.info_crawl(INFO, state(expires=1795251752), server_time=NOW))
    assert record["expires"] == "1795251752"


def test_info_about_an_unknown_crawl_has_zeros() -> None:
    """The client is answered, with the same keys."""
    record = read(replies.info_crawl(INFO, None, server_time=NOW))
    assert (record["total_pending"], record["total_domains"], record["domains"]) == (0, 0, {})
    assert record["state"] == "unknown"


def test_a_stop_is_answered_with_what_it_took_out() -> None:
    """Seven keys, as ever."""
    assert read(replies.stop(STOP, purged=4, server_time=NOW)) == {
        "action": "stop",
        "appid": "app",
        "crawlid": "job",
        "spiderid": "link",
        "total_purged": 4,
        "server_time": NOW,
        "uuid": "u",
    }
    assert "error" not in read(replies.stop(STOP, purged=0, server_time=NOW))


def test_a_stop_that_stops_nothing_says_so() -> None:
    """An unknown crawl, or none named: the same keys, and an error."""
    unknown = read(replies.stop(STOP, purged=None, server_time=NOW))
    assert unknown["error"] == "no such crawl is under way"
    assert (unknown["total_purged"], unknown["crawlid"], unknown["uuid"]) == (0, "job", "u")
    others = [state(crawl=CrawlKey("lnik", "app", "job"))]
    named = read(replies.stop(STOP, purged=None, server_time=NOW, namesakes=others))
    assert named["error"] == (
        "no such crawl is under way; spiders with a crawl of this id: lnik (running)"
    )
    nameless = ActionRequest(name="stop", uuid="u", appid="app", spiderid="link")
    record = read(replies.stop(nameless, purged=None, server_time=NOW))
    assert record["error"] == "stop needs a crawlid"
    assert record["crawlid"] is None


@pytest.mark.parametrize("name", ["pause", "resume", "reprioritize"])
def test_steering_is_answered_with_the_run_that_it_meant(name: str) -> None:
    """Seven keys, and the priority where one was asked for; an error where nothing was changed."""
    asked = replace(STOP, name=name, priority=7 if name == "reprioritize" else None)
    record = read(replies.steered(asked, run=3, server_time=NOW))
    ids = {"appid": "app", "crawlid": "job", "spiderid": "link", "uuid": "u"}
    expected = {"action": name, "server_time": NOW, "run": 3, **ids}
    assert record == expected | ({"priority": 7} if name == "reprioritize" else {})
    hour = read(replies.steered(replace(asked, until=NOW + 3600), run=3, server_time=NOW))
    assert hour == record | ({"until": NOW + 3600} if name == "pause" else {})
    unknown = read(replies.steered(asked, run=None, server_time=NOW))
    assert unknown["error"] == "no such crawl is under way"
    nameless = read(replies.steered(replace(asked, crawlid=None), run=None, server_time=NOW))
    assert nameless["error"] == f"{name} needs a crawlid"
    aimless = replace(STOP, name="reprioritize")
    error = read(replies.steered(aimless, run=None, server_time=NOW))["error"]
    assert error == "reprioritize needs a priority"


def test_info_tells_what_a_person_holds_back() -> None:
    """All pages of a paused crawl, or those that wait in blocked domains."""
    asked = replace(STOP, name="info")
    blocked = DomainBacklog(
        domain="b.example", total=2, high_priority=1, low_priority=1, is_blocked=True
    )
    states = [state(), state(state="paused"), state(domains=[*state().domains, blocked])]
    told = [read(replies.info_crawl(asked, one, server_time=NOW)) for one in states]
    assert [one["held_back"] for one in told] == [{}, {"paused": 3}, {"blocked": 2}]
    assert told[1]["state"] == "paused"


def test_an_action_that_failed_is_answered_by_its_own_uuid() -> None:
    """The answer has the error, and the fields of the request."""
    record = read(replies.action_error(STOP, "it broke", server_time=NOW))
    assert set(record) == {
        "action",
        "appid",
        "spiderid",
        "crawlid",
        "uuid",
        "server_time",
        "error",
    }


def test_an_expiry_has_no_uuid() -> None:
    """No client has requested it."""
    assert read(replies.expired(CRAWL, total_expired=3, server_time=NOW)) == {
        "action": "expired",
        "appid": "app",
        "crawlid": "job",
        "spiderid": "link",
        "total_expired": 3,
        "server_time": NOW,
    }
    record = read(replies.expired(CRAWL, total_expired=3, server_time=NOW, by="max_seconds"))
    assert record["by"] == "max_seconds"


def test_a_zookeeper_reply_has_an_error_only_where_there_is_one() -> None:
    """Five keys, and the error."""
    request = ZookeeperRequest(uuid="u", appid="app", action="domain-update", domain="a.example")
    known = {
        "uuid": "u",
        "appid": "app",
        "action": "domain-update",
        "domain": "a.example",
        "server_time": NOW,
    }
    assert read(replies.zookeeper(request, server_time=NOW)) == known
    failed = read(replies.zookeeper(request, server_time=NOW, error="no"))
    assert failed == known | {"error": "no"}


def test_an_accepted_seed_is_told_its_run() -> None:
    """Reports the run of an accepted seed only if its request has a uuid."""
    assert read(replies.accepted(CRAWL, uuid="u", run=2, server_time=NOW)) == {
        "action": "accepted",
        "appid": "app",
        "crawlid": "job",
        "spiderid": "link",
        "uuid": "u",
        "run": 2,
        "server_time": NOW,
    }


def test_a_rejection_echoes_the_ids_that_could_be_read() -> None:
    """Repeats readable ids in a rejection, with its reason as code and sentences."""
    reply = replies.rejected(
        {"uuid": "u", "appid": "app"}, reason="bad_url", errors=["$.url: empty"], server_time=NOW
    )
    assert read(reply) == {
        "action": "rejected",
        "uuid": "u",
        "appid": "app",
        "reason": "bad_url",
        "errors": ["$.url: empty"],
        "server_time": NOW,
    }
