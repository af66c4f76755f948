"""The part of random lives in which clients feed seeds and commands."""

from __future__ import annotations

import time
from dataclasses import replace
from random import Random

from crawlstream.model.effects import Command, Effect, Seed
from crawlstream.model.recurring.schedule import Occasion
from support.frontier import bench as support
from support.frontier.bench import Feed
from support.frontier.life import Life, Part
from support.frontier.values import Generation, Item, Place

AT = int(time.time())
REMEMBER = (None, None, None, None, 0, 30, 5_400)
"""Seconds; nothing said, less and more than the frontier of these tests has by itself."""


class Feeding(Part):
    """Two Kafka partitions."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._feeds = [life.bench.feed, Feed(life.bench.frontier, partition=1)]
        self._event_time = 1_000
        self._repeated = 0
        self._remembering = Random(repr(self.random.getstate()))
        """A generator of its own: adding it changed no random sequence of before."""
        self._budgeting = Random(repr(self.random.getstate()) + "budgets")
        self._refused: dict[int, dict[int, str]] = {feed.partition: {} for feed in self._feeds}
        """Reasons of refused records that may not be reported yet, by partition and offset."""

    async def feed(self) -> None:
        """A batch of one Kafka partition, with seeds, stops and other commands.

        It may begin with records that have been fed before: only the others take effect, and seeds
        that a late stop did not mean.
        """
        feed = self.random.choice(self._feeds)
        start = feed.next
        records = [self._record(feed) for _ in range(self.random.randint(1, 5))]
        feed.records.update((record.offset, record) for record in records)
        if self.random.random() < 0.2:
            start = max(start - self.random.randint(1, 5), 0)
        await self._put(feed, start, position=records[0].offset)

    async def repeat_feed(self) -> None:
        """Send a batch whose reply was lost again: its refusals repeat, and nothing changes."""
        feed = self.random.choice(self._feeds)
        await self._put(feed, max(feed.next - self.random.randint(1, 7), 0), position=feed.next)

    async def read_again(self) -> None:
        """Start a kafka-monitor at the frontier's position; it reports refused records."""
        feed = self.random.choice(self._feeds)
        positions = self.bench.frontier.positions
        begin = await positions.begin(feed.topic_id, feed.partition, feed.next)
        wanted = [one.begin for one in self.model.again.get(feed.partition, ())]
        assert begin == min([feed.next, *wanted, *self._refused[feed.partition]])
        await self._put(feed, begin, position=feed.next)
        await self._put(feed, feed.next, position=feed.next)
        assert not self._refused[feed.partition]

    async def _put(self, feed: Feed, start: int, *, position: int) -> None:
        """Let the records from an offset on take effect."""
        partition = feed.partition
        if start == 0:
            await feed.place()
        records = [feed.records[offset] for offset in range(start, feed.next)]
        answer = await feed.frontier.intake.apply(replace(feed.batch(*records), start=start))
        self._repeated = 0
        now, wall = self.redis.now, self.redis.wall
        runs: dict[int, int] = {}
        kept = self._refused[partition]
        refused = {offset: reason for offset, reason in kept.items() if offset >= start}
        for record in records:
            if record.offset < position and not self._enters_again(partition, record):
                continue
            is_new = record.offset >= position
            run, refusal = self._apply(feed, record, now, wall, is_new=is_new)
            if run is not None:
                runs[record.offset] = run
            if refusal is not None:
                refused[record.offset] = refusal
        self.model.read_again(partition, start, feed.next)
        self._refused[partition] = refused
        assert answer.applied == feed.next - position
        assert (dict(answer.runs), dict(answer.refused)) == (runs, refused), (records, answer)
        assert answer.repeated == self._repeated
        await self._revisit()
        await self.settle_up()

    def _enters_again(self, partition: int, record: Effect) -> bool:
        place = Place(partition, record.offset, record.timestamp_ms)
        return isinstance(record, Seed) and self.model.enters_again(record.crawl, place)

    async def _revisit(self) -> None:
        """Bring resumed and reprioritized runs into their places, in steps, as `tend` does."""
        while await self.bench.frontier.scripts.run("revisit", 2):
            pass

    def _record(self, feed: Feed) -> Seed | Command:
        self._event_time += self.random.randint(1, 5)
        at = self._event_time - (self.random.choice((0, 8, 30)) if feed.partition else 0)
        crawl = self.random.choice([*self.world.caps])
        if self.random.random() < 0.3:
            name = self.random.choice(self.world.commands)
            priority = self.random.choice((1, 50, 70, 100)) if name == "reprioritize" else None
            return feed.command(
                name,
                crawl,
                timestamp_ms=at,
                priority=priority,
                until=self._until() if name == "pause" else 0,
                occasion=self._occasion(),
            )
        domain = self.random.choice(self.world.domains[crawl.spiderid])
        later = self.random.random() < 0.1
        domain_cap, crawl_cap = self.world.caps[crawl]
        return feed.seed(
            f"{domain}/{self.world.first_seed + self.random.randrange(self.world.paths)}",
            crawl=crawl,
            priority=self.random.choice((-20, 50, 50, 100)),
            expires=self.random.choices((0, 1, 4_000_000_000), (80, 8, 12))[0],
            not_before=time.time() + self.random.randint(1, 4) if later else 0,
            timestamp_ms=at,
            occasion=self._occasion(),
            remember=self._remembering.choice(REMEMBER),
            budgets=self._budgeting.choice(self.world.budgets),
            domain_max_pages=domain_cap,
            domain_max_bytes=self.world.domain_bytes[crawl],
            score=self.world.scores[crawl],
            host_budget=self.world.host_budgets[crawl],
            max_pages=crawl_cap,
        )

    def _until(self) -> int:
        """A pause without an end, with one that has come, or that is far."""
        return self.random.choice((0, 0, 1, 4_000_000_000))

    def _apply(
        self, feed: Feed, record: Effect, now: int, wall: int, *, is_new: bool
    ) -> tuple[int | None, str | None]:
        """The run that a record enters, and why it does not."""
        model, place = self.model, Place(feed.partition, record.offset, record.timestamp_ms)
        if isinstance(record, Seed) and model.was_stopped(record.crawl, place):
            pass
        elif is_new and isinstance(record, Seed | Command) and not self._is_first(record):
            return None, None
        if isinstance(record, Command):
            model.look_at_budgets()
            if record.name == "stop" and record.crawl:
                positions = {feed.partition: feed.next for feed in self._feeds}
                model.stop(record.crawl, place, positions)
            elif record.name in {"pause", "resume", "reprioritize"} and record.crawl:
                model.steer(record, now)
            return None, None
        assert isinstance(record, Seed)
        url, origin, _ = support.entry_of(record.entry)
        nowhere = Generation(record.crawl)
        spider = record.crawl.spiderid
        item = Item(url, origin, spider, record.domain, record.priority, nowhere)
        entered = model.feed(
            record.crawl,
            item,
            expires=record.expires,
            place=place,
            remember=record.remember,
            occasion=record.occasion,
            budgets=record.budgets,
        )
        if isinstance(entered, str):
            return None, entered
        not_before = int(record.not_before * 1000)
        due = now + not_before - wall if not_before > wall else None
        return entered, model.admit_seed(item, record.fingerprint, due)

    def _is_first(self, record: Seed | Command) -> bool:
        appid = record.crawl.appid if record.crawl else ""
        is_first = self.model.is_first(appid, record.occasion)
        self._repeated += not is_first
        return is_first

    def _occasion(self) -> Occasion | None:
        """Return one of few occasions, so that many repeat; most records have none."""
        if self.random.random() < 0.8:
            return None
        at = AT + self.random.randrange(2)
        return Occasion("s", at, self.random.choice((0, 1, 4095, 4096)))

    async def resume_all(self) -> None:
        """All is read again that should be, and nothing is paused any more."""
        while any(self.model.again.values()) or any(self._refused.values()):
            await self.read_again()
        feed, crawls = self._feeds[0], [*self.model.latest]
        begun = feed.next
        for crawl in crawls:
            record = feed.command("resume", crawl)
            feed.records[record.offset] = record
        await self._put(feed, begun, position=begun)
