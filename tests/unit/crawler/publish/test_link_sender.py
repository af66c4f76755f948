"""Links to other partitions: in Kafka before their page ends, and needed from then on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from crawling.background import Tasks
from crawling.lease.leases import Leases
from crawling.page.page import Page, Phase
from crawling.publish import link_sender as room
from crawling.publish.link_sender import LinkSender, LinkTopic
from crawling.publish.publisher import Publisher
from crawlstream.boot.settings import load_settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.history import PartitionOffsets
from crawlstream.bus.records import NO_OFFSET, Out, RecordTooLarge
from crawlstream.keys import Partitions
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.effects import Links, Outcome, Settle
from crawlstream.model.partitions.messages import ContextKey, LinkOrigin, Version
from crawlstream_frontier.codec.link_records import read_links
from support.crawler.leases import lease

PARTITIONS = Partitions("cs", 3)
ORIGIN = LinkOrigin(
    context=ContextKey(CrawlKey("link", "app", "crawl"), 1),
    version=Version(1, 1),
    spiderid="link",
    profile="0" * 16,
    domain_max_pages=None,
    max_pages=None,
)


def domain_in(partition: int) -> str:
    """A page that lies there."""
    return next(d for n in range(99) if PARTITIONS.of(d := f"d{n}.example") == partition)


class Sending:
    """A worker with pages of partition 0, and a Kafka that answers at a command."""

    def __init__(self, partitions: Partitions = PARTITIONS) -> None:
        self.may_answer = asyncio.Event()
        self.records: list[Out] = []
        self.refused: Sequence[bytes] = ()
        self.offset_of: Callable[[int], int] = lambda number: 100 + number
        self.origin: LinkOrigin | None = ORIGIN
        self.tasks = Tasks(lambda: None)
        self.leases = Leases(9, lambda: None)
        publisher = Publisher(self, load_settings())  # type: ignore[arg-type]
        self.topic = LinkTopic(publisher, Kafka(()), "links", group="g")
        self.leases.spiller = LinkSender(
            self.topic,
            partitions,
            origin_of=lambda _: self.origin,
            leases=self.leases,
            tasks=self.tasks,
        )
        self._pages = 0

    async def send(self, records: Sequence[Out]) -> Sequence[int]:
        """As a sink's."""
        await self.may_answer.wait()
        bad = [record for record in records if record.value in self.refused]
        self.records += [record for record in records if record not in bad]
        if bad:
            raise RecordTooLarge("too large", bad)
        return [self.offset_of(len(self.records) - len(records) + n) for n, _ in enumerate(records)]

    def done(self, *partitions: int, run: int = 1, here: int = 0) -> Page:
        """A page of one partition that is done, and leads to one link of each of these."""
        self._pages += 1
        page = self.leases.admit(replace(lease(self._pages), run=run, partition=here))
        page.links = [
            Links(domain=domain_in(p), priority=1, fingerprints=[f"{p}"], entries=[b"e%d" % p])
            for p in partitions
        ]
        self.leases.settle(page, Outcome.DONE, "2xx")
        return page

    async def settles(self, of: int = 0) -> Sequence[Settle]:
        """Reports to a partition, once nothing is in progress."""
        self.may_answer.set()
        await self.tasks.finish(5)
        return self.leases.of(of).take_report().settles


@pytest.fixture
def sending(monkeypatch: pytest.MonkeyPatch) -> Sending:
    """Nothing in progress; links wait for others no longer than needed."""
    monkeypatch.setattr(room, "GATHER_S", 0.005)
    return Sending()


def ends_at(offset: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic ends there now, in partition 0, and one further in each that follows."""

    async def offsets(*_: object, **__: object) -> dict[int, PartitionOffsets]:
        return {p: PartitionOffsets(0, offset + p, None) for p in range(3)}

    monkeypatch.setattr(room, "partition_offsets", offsets)


async def test_a_page_ends_once_kafka_has_its_links_and_needs_them(sending: Sending) -> None:
    """Its own partition's links stay in the settle; what lies elsewhere is needed up to there."""
    page = sending.done(0, 1, 2)
    await asyncio.sleep(0.05)
    assert (page.phase, sending.leases.of(0).has_report) == (Phase.SPILLING, False)
    (settle,) = await sending.settles()
    assert [group.domain for group in settle.links] == [domain_in(0)]
    offsets = {record.partition: 101 + n for n, record in enumerate(sending.records)}
    assert settle.need == offsets
    assert set(offsets) == {1, 2}
    assert [read_links(0, record.value).links for record in sending.records] == [1, 1]


async def test_a_page_without_such_links_does_not_wait(sending: Sending) -> None:
    """It is reported at once."""
    page = sending.done(0)
    assert page.phase is Phase.ENDED
    assert sending.leases.of(0).has_report


async def test_links_of_pages_with_one_origin_share_a_record(sending: Sending) -> None:
    """Common links of two of them are sent once, and counted as a duplicate."""
    sending.done(1)
    sending.done(1)
    settles = await sending.settles()
    assert len(sending.records) == 1
    assert sum((Counter(each.filtered) for each in settles), Counter()) == {"duplicate": 1}
    assert [settle.need for settle in settles] == [{1: 101}, {1: 101}]


async def test_what_was_sent_before_is_left_out_and_needed(sending: Sending) -> None:
    """The page of a link that Kafka has does not wait; it is counted as a duplicate."""
    sending.done(1)
    await sending.settles()
    page = sending.done(1)
    assert page.phase is Phase.ENDED
    (settle,) = await sending.settles()
    assert len(sending.records) == 1
    assert (settle.need, settle.filtered, settle.links) == ({1: 101}, {"duplicate": 1}, [])


async def test_what_was_sent_is_not_put_where_it_was_sent_to(sending: Sending) -> None:
    """A page of that partition leaves it out as well, and needs that it is read there."""
    sending.done(1)
    await sending.settles()
    sending.done(1, 0, here=1)
    (settle,) = await sending.settles(of=1)
    assert [group.domain for group in settle.links] == []
    assert (settle.need, settle.filtered) == ({0: 102, 1: 101}, {"duplicate": 1})
    assert [record.partition for record in sending.records] == [1, 0]


async def test_what_a_page_has_put_is_sent_from_elsewhere(sending: Sending) -> None:
    """A partition that goes back forgets what it was put, and only that page comes again."""
    sending.done(1, here=1)
    sending.done(1)
    assert [settle.need for settle in await sending.settles()] == [{1: 101}]
    (settle,) = await sending.settles(of=1)
    assert [group.domain for group in settle.links] == [domain_in(1)]


async def test_one_partition_leaves_nothing_to_kafka() -> None:
    """Its pages settle as they are, unless it has no room."""
    sending = Sending(Partitions("cs", 1))
    page = sending.done(0)
    assert page.phase is Phase.ENDED
    (settle,) = await sending.settles()
    assert [group.domain for group in settle.links] == [domain_in(0)]
    assert not settle.need


async def test_what_is_on_its_way_is_sent_again(sending: Sending) -> None:
    """Kafka might never get it: nothing is left out before it has answered."""
    sending.done(1)
    await asyncio.sleep(0.05)
    page = sending.done(1)
    assert page.phase is Phase.SPILLING
    assert [settle.need for settle in await sending.settles()] == [{1: 101}, {1: 102}]
    assert len(sending.records) == 2


async def test_another_run_sends_all_of_it(sending: Sending) -> None:
    """Between runs a partition may have forgotten what it has seen."""
    sending.done(1)
    await sending.settles()
    sending.done(1, run=2)
    assert [settle.need for settle in await sending.settles()] == [{1: 102}]


async def test_what_kafka_does_not_take_is_not_known(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused again, and counted again."""
    ends_at(700, monkeypatch)
    sending.done(1)
    await sending.settles()
    sending.refused = [sending.records[0].value or b""]
    for _ in range(2):
        sending.done(1, run=2)
        (settle,) = await sending.settles()
        assert settle.filtered == {"too_large": 1}


async def test_a_later_page_needs_what_earlier_ones_have_sent(sending: Sending) -> None:
    """The need of a worker only grows: so what it left out, because it sent it before, is in it."""
    sending.done(1)
    assert [settle.need for settle in await sending.settles()] == [{1: 101}]
    sending.done(2)
    assert [settle.need for settle in await sending.settles()] == [{1: 101, 2: 102}]


async def test_an_offset_that_kafka_does_not_tell_is_below_the_end(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent twice, a record is somewhere before the end that the topic has then."""
    ends_at(700, monkeypatch)
    sending.offset_of = lambda _: NO_OFFSET
    sending.done(1)
    assert [settle.need for settle in await sending.settles()] == [{1: 701}]


async def test_a_page_in_other_hands_does_not_end_without_its_links(sending: Sending) -> None:
    """It is released if no process knows any more what they inherit."""
    sending.origin = None
    page = sending.done(1)
    await sending.settles()
    assert page.phase is Phase.ENDED
    assert not sending.records


async def test_a_crowded_partition_has_its_own_links_sent_too(sending: Sending) -> None:
    """They come back with those of the others, when there is room."""
    sending.leases.of(0).is_crowded = True
    sending.done(0)
    (settle,) = await sending.settles()
    assert (settle.links, settle.need) == ([], {0: 101})
