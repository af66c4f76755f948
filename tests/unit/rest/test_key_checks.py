"""Keys of sites that announce pages by IndexNow, and announcements that wait for them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crawlstream.bus.records import Record
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.event import PageReply, RecordPlace
from crawlstream.wire.results import encode_result
from rest_service.http.access import Client, Role
from rest_service.http.byte_budget import ByteBudget
from rest_service.http.envelope import RequestRefused
from rest_service.http.fair_semaphore import FairSemaphore
from rest_service.service import Service
from rest_service.topics.key_checks import WAITING_BYTES, KeyChecks
from rest_service.v2.scrapes.key_checks import IndexNowKey, is_key_file
from support.pipelines.results import PAGE

KEY = "key-0123456789"
PROOF = IndexNowKey(PAGE.url, KEY)
SENDER = Client("indexnow", Role.SUBMIT)
BUDGET = 1 << 20
URLS = ["https://example.com/" + "a" * 2_000] * 500


class OneRecord:
    """Reads the record of a page, and notes the bytes that were free meanwhile."""

    def __init__(self, budget: ByteBudget, body: bytes) -> None:
        self._budget = budget
        self._value = encode_result(replace(PAGE, body=body))
        self.free = list[int]()

    async def read(self, _: object) -> Record:
        """Return it."""
        self.free.append(self._budget.left)
        return Record("topic", 0, 0, 0, b"", self._value)


def service_of(records: OneRecord, budget: ByteBudget) -> Service:
    """Return the parts of a process that read a page."""
    places = FairSemaphore(most=1, each=1)
    topics = SimpleNamespace(crawled="topic")
    parts = SimpleNamespace(scrape_bytes=budget, places=places, records=records, topics=topics)
    return cast("Service", parts)


def reply_about(body: bytes, **fields: Any) -> PageReply:
    """Return the reply about a page with a body."""
    crawl, place = CrawlKey("link", "app", "scrape"), RecordPlace("topic", 0, 0)
    given = {"status_code": 200, "body_size": len(body), "place": place, **fields}
    return PageReply(uuid="id", crawl=crawl, run=1, server_time=0, **given)


@pytest.mark.parametrize(
    ("body", "is_right"),
    [
        (KEY.encode(), True),
        (b"\xef\xbb\xbf" + KEY.encode() + b"\r\n", True),
        (b"", False),
        (b"another-0123456789", False),
        (f"{KEY} {KEY}".encode(), False),
        (b"\xff\xfe", False),
    ],
)
async def test_a_key_file_occupies_bytes_while_it_is_read(body: bytes, *, is_right: bool) -> None:
    """Its record takes a part of the bytes of scraped pages, and gives it back."""
    budget = ByteBudget(BUDGET)
    records = OneRecord(budget, body)
    service = service_of(records, budget)
    assert await is_key_file(service, reply_about(body), PROOF, SENDER) is is_right
    assert 0 < BUDGET - records.free[0] < BUDGET // 2
    assert budget.left == BUDGET
    assert not service.places.is_full(SENDER.name)


async def test_a_file_that_is_no_key_file_is_not_read() -> None:
    """Does not read a key file of wrong size or status; without a page, decides nothing."""
    budget, body = ByteBudget(BUDGET), KEY.encode()
    records = OneRecord(budget, body)
    service = service_of(records, budget)
    for fields, outcome in (
        ({"body_size": 1_025}, False),
        ({"status_code": 404}, False),
        ({"place": None, "body_size": None, "reason": "timeout"}, None),
    ):
        reply = reply_about(body, **fields)
        assert await is_key_file(service, reply, PROOF, SENDER) is outcome
    assert records.free == []


async def test_a_key_file_waits_for_bytes_that_others_have() -> None:
    """It is refused if they are not free in time: the key is neither right nor wrong."""
    budget, body = ByteBudget(BUDGET, patience_s=0.01), KEY.encode()
    records = OneRecord(budget, body)
    async with budget.of("another", BUDGET), budget.of("third", BUDGET):
        with pytest.raises(RequestRefused, match="large pages"):
            await is_key_file(service_of(records, budget), reply_about(body), PROOF, SENDER)
    assert records.free == []
    assert budget.left == BUDGET


async def test_announcements_that_wait_have_a_bound_in_bytes() -> None:
    """Further ones are refused, and accepted when the others have ended."""
    checks, is_over = KeyChecks(patience_s=0), asyncio.Event()

    async def handle() -> bool:
        await is_over.wait()
        return True

    for _ in range(WAITING_BYTES // sum(len(url) + 64 for url in URLS)):
        assert await checks.answer(handle(), URLS) is None
    with pytest.raises(RequestRefused) as refused:
        await checks.answer(handle(), URLS)
    assert refused.value.status == 429
    is_over.set()
    await asyncio.sleep(0.01)
    await checks.answer(handle(), URLS)
    await checks.close()


async def test_equal_checks_share_one_that_outlives_its_callers() -> None:
    """A caller that goes away does not end the check of the others."""
    checks, is_over, began = KeyChecks(), asyncio.Event(), list[None]()

    async def prove() -> bool:
        began.append(None)
        await is_over.wait()
        return True

    callers = [asyncio.create_task(checks.check(PROOF, prove)) for _ in range(3)]
    await asyncio.sleep(0.01)
    callers.pop().cancel()
    is_over.set()
    assert await asyncio.gather(*callers) == [True, True]
    assert len(began) == 1
