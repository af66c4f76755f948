"""The end of a page: nothing is reported to the frontier before Kafka has all records."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import replace

import pytest
from prometheus_client import REGISTRY
from scrapy.http import Response
from twisted.python.failure import Failure

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.page.scrapy_request import PAGE
from crawling.publish.completion import Completion
from crawling.publish.publisher import GivenUp, Publisher
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import NotAcknowledged, Out
from crawlstream.model.crawl import ANSWER_PAGE, Lease
from crawlstream.model.effects import Outcome
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.wire import replies as wire
from support.crawler.leases import lease

HOLD = lease(issued_at=0.0)
WANTED = replace(
    HOLD,
    profile=replace(HOLD.profile, uuid="u1", answer=ANSWER_PAGE),
    entry=replace(HOLD.entry, origin="in-0-7"),
)
"""The lease of a seed whose client waits for the page."""


class Ending:
    """A page in hand, and Kafka as its process sees it."""

    def __init__(self, away: int = 0, hold: Lease = HOLD) -> None:
        self.leases = Leases(4, lambda: None)
        self.page: Page = self.leases.admit(hold)
        self.acknowledged: list[Out] = []
        self.owed_before: list[bool] = []
        """Flags, one for each try to send: does the frontier have the report already?"""
        self._away = away
        self._publisher = Publisher(self, load_settings())  # type: ignore[arg-type]
        self.tasks = Tasks(lambda: None)
        self.endings = Completion(self.leases, self._publisher, self.tasks)

    async def send(self, records: Sequence[Out]) -> None:
        """As ``KafkaSink.send``: away at first, and then slow to take the last record."""
        self.owed_before.append(self.leases.of(0).has_report)
        if self._away:
            self._away -= 1
            raise NotAcknowledged("no word", records)
        self.acknowledged += records

    async def place(self, record: Out) -> RecordPlace:
        """As ``KafkaSink.place``."""
        await self.send([record])
        return RecordPlace("t", 0, len(self.acknowledged) - 1)

    @property
    def replies(self) -> list[PageReply]:
        """Replies about pages that Kafka has, in their order."""
        found = [wire.decode_page(out.value) for out in self.acknowledged]
        return [reply for reply in found if reply]

    def response(self) -> Response:
        """Names of a signal of Scrapy's."""
        response = Response("http://a.example/")
        response.request = response.follow("http://a.example/", meta={PAGE: self.page})
        return response


def failures_answered() -> float:
    """Replies that this process has counted as failures."""
    found = REGISTRY.get_sample_value("crawlstream_reply_seconds_count", {"outcome": "failed"})
    return found or 0


async def test_a_failure_is_told_to_the_world_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publishes a failure first, however long Kafka is unavailable; then the page ends once."""
    monkeypatch.setattr("crawling.publish.publisher._FIRST_PAUSE_S", 0.0)
    ending = Ending(away=2)
    await ending.endings.fail(ending.page, "dns")
    assert ending.owed_before == [False] * 3
    (settle,) = ending.leases.of(0).take_report().settles
    assert (settle.token, settle.outcome, settle.reason) == ("1-1", Outcome.FAILED, "dns")
    await ending.endings.fail(ending.page, "dns")
    assert len(ending.acknowledged) == 1


async def test_what_the_network_says_stays_inside() -> None:
    """A client could learn from it what is behind the crawler."""
    ending = Ending()
    await ending.endings.fail(ending.page, "refused", "10.0.0.7:6379 refused")
    assert "10.0.0.7" not in ending.acknowledged[0].value.decode()
    assert json.loads(ending.acknowledged[0].value)["reason"] == "refused"


def test_a_page_is_done_when_its_items_have_left_the_pipelines() -> None:
    """A spider that has yielded everything is not enough: Kafka may not have it yet."""
    ending = Ending()
    ending.page.items, ending.page.status = 2, 200
    ending.endings.parsed(ending.page)
    ending.endings.item_left(ending.response())
    assert not ending.leases.of(0).has_report
    ending.endings.item_left(ending.response())
    (settle,) = ending.leases.of(0).take_report().settles
    assert (settle.outcome, settle.reason) == (Outcome.DONE, "2xx")


def test_who_gave_up_waiting_for_kafka_ends_no_page() -> None:
    """Another worker fetches it again."""
    ending = Ending()
    ending.page.items = 1
    ending.endings.parsed(ending.page)
    ending.endings.item_failed(ending.response(), Failure(GivenUp("Kafka is away")))
    assert not ending.leases.of(0).has_report
    assert ending.page.is_open


async def test_only_pages_that_are_done_vote_for_the_waste_guard() -> None:
    """A page that fails, or is tried again, shows nothing of its site."""
    voted: list[Page] = []
    for reason in ("", "spider_error"):
        ending = Ending()
        ending.endings.waste = Namespace(note=voted.append)  # type: ignore[assignment]
        ending.page.status, ending.page.failure = 200, reason
        ending.endings.parsed(ending.page)
    assert [page.failure for page in voted] == [""]


async def test_a_client_that_waits_gets_the_failure_before_the_page_ends() -> None:
    """Event, then reply, then settle; a page that was answered has no second reply."""
    ending = Ending(hold=WANTED)
    before = failures_answered()
    await ending.endings.fail(ending.page, "dns")
    assert [out.topic.rpartition(".")[2] for out in ending.acknowledged] == [
        *("events", "outbound_firehose")
    ]
    assert ending.owed_before == [False, False]
    (reply,) = ending.replies
    assert (reply.uuid, reply.reason, reply.attempts, reply.place) == ("u1", "dns", 1, None)
    assert (reply.id, reply.url) == (ending.page.id, HOLD.entry.url)
    assert failures_answered() == before + 1
    again = Ending(hold=WANTED)
    again.page.answered = "u1"
    await again.endings.fail(again.page, "spider_error")
    assert not again.replies


async def test_a_page_without_a_result_is_answered_too() -> None:
    """A spider need not yield one, and a pipeline may drop it: the client gets `no_result`."""
    ending = Ending(hold=WANTED)
    ending.page.status = 200
    ending.endings.parsed(ending.page)
    assert not ending.leases.of(0).has_report
    await ending.tasks.finish(5)
    assert [reply.reason for reply in ending.replies] == ["no_result"]
    (settle,) = ending.leases.of(0).take_report().settles
    assert settle.outcome is Outcome.DONE


async def test_pages_below_the_seed_are_not_answered() -> None:
    """They have its profile, and with it its uuid."""
    ending = Ending(hold=replace(WANTED, entry=replace(WANTED.entry, origin=None)))
    await ending.endings.fail(ending.page, "dns")
    assert not ending.replies
