"""Redis dies between any two records of its append-only file: no page is lost, none is done twice.

A crawl is recorded with everything that can happen to a page. Its file is cut behind each record;
what is left is what a Redis would load. There the crawl goes on: Kafka is read from the position
that Redis knows, workers are new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Command, IntakeBatch, Links, Outcome, Seed, Settle
from crawlstream_chaos.processes import RunningServer
from support.frontier.aof import file_of, replay, units_in
from support.frontier.audit import audit
from support.frontier.bench import (
    GRACE_MS,
    KEYS,
    Bench,
    Worker,
    links,
    open_bench,
    position_of,
    url_of,
)

REPLAYED_DB = 7
PAGES = 31
"""Pages of the site: page n of domain n % 3 links to 3n + 1, 3n + 2 and 3n + 3, if they exist."""
DEADLINE_MS = 30_000


def site_links(lease: Lease) -> list[Links]:
    """Links of the page of a lease."""
    number = int(url_of(lease).partition("/")[2])
    below = [n for n in range(3 * number + 1, 3 * number + 4) if n < PAGES]
    return [links(f"d{n % 3}", [n], priority=lease.priority - 10) for n in below]


def settles_of(leases: Sequence[Lease]) -> list[Settle]:
    """These pages, done with all their links."""
    return [
        Settle(token=lease.token, outcome=Outcome.DONE, links=site_links(lease)) for lease in leases
    ]


@dataclass
class Recording:
    """A crawl, its records in Kafka, and how long the file was when each page was done."""

    file: Path
    records: list[Seed | Command] = field(default_factory=list)
    done_at: list[tuple[int, str]] = field(default_factory=list)
    start: int = 0

    def note_done(self, leases: Sequence[Lease]) -> None:
        """These pages have just been settled."""
        size = self.file.stat().st_size
        self.done_at += [(size, url_of(lease)) for lease in leases]

    def done_before(self, size: int) -> list[str]:
        """Pages that were done within that number of bytes."""
        return [url for at, url in self.done_at if at <= size]


async def settle(recording: Recording, worker: Worker, leases: Sequence[Lease]) -> None:
    """Settle pages with their links in one call."""
    await worker.exchange(settles=settles_of(leases))
    recording.note_done(leases)


async def record(bench: Bench) -> Recording:
    """A crawl in which a worker dies, pages fail for a while, a person pauses, and it finishes."""
    recording = Recording(await file_of(bench.redis))
    await bench.redis.flushdb()
    recording.start = recording.file.stat().st_size
    feed, worker = bench.feed, bench.worker
    await feed.place()

    async def say(*records: Seed | Command) -> None:
        recording.records += records
        await feed.put(*records)

    await bench.rule()
    await say(feed.seed("d0/0", maxdepth=9), feed.seed("d0/30", maxdepth=9))
    await settle(recording, worker, await worker.lease(1))
    leases = await worker.lease(3)
    await worker.sent(*leases)
    await worker.requeue(leases[0], delay_ms=100)
    await settle(recording, worker, leases[1:2])
    await say(feed.command("pause"), feed.seed("d2/29", maxdepth=9))
    await worker.release(leases[2])
    await say(feed.command("reprioritize", priority=90), feed.command("resume"))
    await bench.tend()
    dying = bench.another_worker("dying")
    await dying.lease(4)
    await bench.blame("dying", "")
    while left := await worker.lease(4):
        await settle(recording, worker, left[:3])
        await worker.release(*left[3:], delay_ms=50)
        await bench.advance(200)
    await bench.advance(GRACE_MS)
    await bench.tend()
    await bench.redis.config_set("appendfsync", "everysec")
    return recording


async def go_on(bench: Bench, recording: Recording) -> list[str]:
    """The cluster comes back; answers what is crawled from here to the end."""
    if await bench.redis.hexists(KEYS.meta(), "run_id"):
        await bench.pretend_restart()
    await bench.rule()
    await bench.advance(DEADLINE_MS + 1)
    await bench.tend()
    position = await position_of(bench.frontier, "topic", 0) or 0
    rest = [record for record in recording.records if record.offset >= position]
    batch = IntakeBatch(
        topic_id="topic",
        kafka_partition=0,
        start=position,
        next=len(recording.records),
        records=rest,
    )
    await bench.frontier.intake.apply(batch)
    await bench.tend()
    worker = bench.another_worker("new")
    crawled: list[str] = []
    answer = await worker.exchange(want=50)
    while answer.next_due_ms is not None or answer.leases:
        crawled += map(url_of, answer.leases)
        await bench.advance(1_000)
        answer = await worker.exchange(settles=settles_of(answer.leases), want=50)
    await worker.session.retire()
    await bench.advance(GRACE_MS)
    await bench.tend()
    return crawled


async def check_cut(bench: Bench, recording: Recording, size: int) -> None:
    """Every page is done once, before the cut or behind it, and the run has one end."""
    await audit(bench.redis)
    crawled = recording.done_before(size) + await go_on(bench, recording)
    everything = [f"d{n % 3}/{n}" for n in range(PAGES)]
    # Seeds always enter: what is linked to as well is there twice where its link was first.
    assert set(crawled) == set(everything), size
    state = await bench.state()
    assert len(crawled) == state.admitted == state.done, size
    assert state.admitted - PAGES <= 2
    events = await bench.events()
    assert (events.count("crawl_started"), events.count("crawl_finished")) == (1, 1), (size, events)
    await audit(bench.redis)


async def test_no_cut_between_two_records_loses_a_page(
    redis: Redis, redis_server: RunningServer
) -> None:
    """Loses no page, whichever record is the last that reached the disk."""
    recording = await record(await open_bench(redis, default=None))
    data = recording.file.read_bytes()[recording.start :]
    units = list(units_in(data))
    assert len(units) > 40
    assert len(recording.done_at) >= PAGES
    async with Redis(host="127.0.0.1", port=redis_server.port, db=REPLAYED_DB) as other:
        for number in range(len(units) + 1):
            at = units[number - 1][0] if number else 0
            await replay(other, [unit for _, unit in units[:number]])
            bench = await open_bench(other, default=None)
            await check_cut(bench, recording, recording.start + at)


async def test_a_file_that_ends_in_the_middle_of_a_record_is_loaded(
    redis: Redis, redis_server: RunningServer
) -> None:
    """Redis itself drops the torn record, and the crawl goes on from the one before."""
    recording = await record(await open_bench(redis, default=None))
    units = list(units_in(recording.file.read_bytes()[recording.start :]))
    ends = [recording.start + at for at, _ in units]
    whole, torn = ends[len(ends) // 2 - 1], ends[len(ends) // 2]
    redis_server.kill()
    with recording.file.open("r+b") as file:
        file.truncate((whole + torn) // 2)
    redis_server.start()
    await check_cut(await open_bench(redis, default=None), recording, whole)
