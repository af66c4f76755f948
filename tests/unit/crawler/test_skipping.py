"""Pages that end before their requests: their events, and the order of effects."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page
from crawling.publish.publisher import GivenUp, Publisher
from crawling.publish.skipping import MOST_PAGES, Skipping
from crawlstream.boot.settings import load_settings
from crawlstream.bus.records import NotAcknowledged, Out, RecordTooLarge
from crawlstream.model.crawl import CrawlKey, Entry
from crawlstream.model.event import RecordPlace
from crawlstream.wire import jsontext
from support.crawler.leases import lease


class Sink:
    """Kafka, with a limit of the size of a record."""

    def __init__(self) -> None:
        self.most_bytes = 1_000_000
        self.is_away = False
        self.taken: list[Out] = []

    async def place(self, record: Out) -> RecordPlace:
        """As ``KafkaSink.place``: other records linger, and so would the next page's lease."""
        if self.is_away:
            raise NotAcknowledged("no word", [record])
        if len(record.value or b"") > self.most_bytes:
            raise RecordTooLarge("too large", [record])
        self.taken.append(record)
        return RecordPlace("events", 0, len(self.taken) - 1)

    @property
    def events(self) -> list[dict[str, Any]]:
        """Return the published events."""
        return [jsontext.loads(each.value) for each in self.taken]  # type: ignore[misc]


class Bench:
    """Leases of a process, and what skips them."""

    def __init__(self) -> None:
        self.sink = Sink()
        self.publisher = Publisher(self.sink, load_settings())  # type: ignore[arg-type]
        self.leases = Leases(4, lambda: None)
        self.skipping = Skipping(self.leases, self.publisher, Tasks(lambda: None))

    def pages(self, count: int, url: str = "http://a.example/list/", **changes: Any) -> list[Page]:
        """Return new pages."""
        entries = (Entry(url=f"{url}{n}") for n in range(count))
        return [
            self.leases.admit(lease(n, entry=entry, **changes)) for n, entry in enumerate(entries)
        ]

    async def skip(self, pages: Sequence[Page]) -> None:
        """Skip pages of one family."""
        await self.skipping.skip(pages, reason="guard_path", family="/list/#")

    @property
    def ends(self) -> list[tuple[str, str]]:
        """Return outcome and reason of each end that is reported to the frontier."""
        taken = [end for _ in range(9) for end in self.leases.of(0).take_report().settles]
        assert all(end.refused == {"guard_path a.example /list/#": 1} for end in taken)
        return [(end.outcome.value, end.reason) for end in taken]


@pytest.fixture
def bench() -> Bench:
    """Return a new one."""
    return Bench()


async def test_an_event_about_a_budget_names_it(bench: Bench) -> None:
    """It has no family."""
    pages = bench.pages(1)
    await bench.skipping.skip(pages, reason="domain_budget", by="domain_max_bytes")
    (event,) = bench.sink.events
    assert (event["reason"], event["by"]) == ("domain_budget", "domain_max_bytes")
    assert "family" not in event
    (end,) = bench.leases.of(0).take_report().settles
    assert (end.outcome.value, end.reason, end.refused) == ("skipped", "domain_budget", {})


async def test_an_event_names_the_pages_and_their_family(bench: Bench) -> None:
    """Its key is the id of the first page; the frontier gets outcome and reason."""
    pages = bench.pages(2)
    await bench.skip(pages)
    (record,) = bench.sink.taken
    assert record.key == pages[0].id.encode()
    (event,) = bench.sink.events
    assert event.pop("server_time") > 0
    assert event == {
        "event": "pages_skipped",
        "appid": "app",
        "crawlid": "crawl",
        "spiderid": "link",
        "run": 1,
        "reason": "guard_path",
        "family": "/list/#",
        "site": "a.example",
        "pages": [{"id": page.id, "url": page.lease.entry.url} for page in pages],
        "count": 2,
    }
    assert bench.ends == [("skipped", "guard_path")] * 2


async def test_no_page_ends_before_kafka_has_its_event(bench: Bench) -> None:
    """A worker that gives up on Kafka leaves all pages open, for others to skip."""
    pages = bench.pages(3)
    bench.sink.is_away = True
    bench.publisher._gives_up_at = 0.0
    with pytest.raises(GivenUp):
        await bench.skip(pages)
    assert all(page.is_open for page in pages)
    assert not bench.ends


async def test_an_event_has_500_pages_of_one_run_and_site(bench: Bench) -> None:
    """Each page is in one event."""
    other = CrawlKey("link", "app", "other")
    pages = [
        *bench.pages(MOST_PAGES + 1),
        *bench.pages(2, crawl=other),
        *bench.pages(3, run=2),
        *bench.pages(4, "http://b.example/list/"),
    ]
    await bench.skip(pages)
    assert [event["count"] for event in bench.sink.events] == [MOST_PAGES, 1, 2, 3, 4]
    told = [page["id"] for event in bench.sink.events for page in event["pages"]]
    assert sorted(told) == sorted(page.id for page in pages)


async def test_long_urls_are_fewer_an_event(bench: Bench) -> None:
    """An event has up to 128 KiB of URLs, and half of that if the topic takes less."""
    pages = bench.pages(200, "http://a.example/" + "x" * 2_000)
    await bench.skip(pages)
    assert [event["count"] for event in bench.sink.events] == [63, 63, 63, 11]
    assert bench.ends == [("skipped", "guard_path")] * 200
    bench.sink.most_bytes = 70_000
    await bench.skip(bench.pages(62, "http://b.example/" + "x" * 2_000))
    assert [event["count"] for event in bench.sink.events[4:]] == [31, 31]


async def test_pages_that_have_ended_are_left_alone(bench: Bench) -> None:
    """A page that ends during the publication keeps its first end."""
    first, second = bench.pages(2)
    bench.leases.release(first)
    bench.skipping.skip_soon([first, second], reason="guard_host", family="host")
    bench.leases.lose(0, [second.token])
    for _ in range(5):
        await asyncio.sleep(0)
    assert [event["count"] for event in bench.sink.events] in ([], [1])
    assert not bench.ends


async def test_no_pages_are_no_event(bench: Bench) -> None:
    """Publishes no event for no pages."""
    await bench.skip([])
    assert not bench.sink.taken
