"""The part of random lives in which clients feed seeds and commands."""

from __future__ import annotations

import time
from dataclasses import replace

from crawlstream.model.effects import Command, IntakeBatch, Seed
from support import frontier as support
from support.frontier import Feed
from support.frontier_life import Life, Part
from support.frontier_values import Generation, Item
from support.frontier_world import COMMANDS


class Feeding(Part):
    """Two Kafka partitions."""

    def __init__(self, life: Life) -> None:
        super().__init__(life)
        self._feeds = [life.bench.feed, life.bench.another_feed(1)]
        self._event_time = 1_000
        self._last: dict[int, IntakeBatch] = {}
        """The last batch of each partition."""

    async def feed(self) -> None:
        """A batch of one Kafka partition, with seeds, stops and other commands.

        It may begin with records that have been fed before: only the others take effect.
        """
        feed = self.random.choice(self._feeds)
        records = [self._record(feed) for _ in range(self.random.randint(1, 5))]
        batch = feed.batch(*records)
        before = self._last.get(feed.partition)
        if before and self.random.random() < 0.2:
            batch = replace(batch, start=before.start, records=(*before.records, *records))
        answer = await feed.frontier.intake(batch)
        self._last[feed.partition] = batch
        assert answer.applied == len(records)
        now, wall = self.redis.now, self.redis.wall
        for record in records:
            run, refusal = self._apply(feed, record, now, wall)
            assert answer.runs.get(record.offset) == run, (record, answer)
            assert answer.refused.get(record.offset) == refusal, (record, answer)
        await self._revisit()
        await self.settle_up()

    async def _revisit(self) -> None:
        """What was resumed or reprioritized stands where it should; in steps, as `tend` does it."""
        while await self.bench.frontier._run("revisit", 2):
            pass

    async def repeat_feed(self) -> None:
        """The answer to the last batch was lost; it changes nothing a second time."""
        feed = self.random.choice(self._feeds)
        if batch := self._last.get(feed.partition):
            start = max(batch.start - self.random.randint(0, 2), 0)
            answer = await feed.frontier.intake(replace(batch, start=start))
            assert (answer.applied, dict(answer.runs)) == (0, {})

    def _record(self, feed: Feed) -> Seed | Command:
        self._event_time += self.random.randint(1, 5)
        at = self._event_time - (self.random.choice((0, 8, 30)) if feed.partition else 0)
        crawl = self.random.choice([*self.world.caps])
        if self.random.random() < 0.3:
            name = self.random.choice(COMMANDS)
            priority = self.random.choice((1, 50, 70, 100)) if name == "reprioritize" else None
            return feed.command(name, crawl, timestamp_ms=at, priority=priority)
        domain = self.random.choice(self.world.domains[crawl.spiderid])
        later = self.random.random() < 0.1
        domain_cap, crawl_cap = self.world.caps[crawl]
        return feed.seed(
            f"{domain}/{self.random.randrange(self.world.paths)}",
            crawl=crawl,
            priority=self.random.choice((-20, 50, 50, 100)),
            expires=self.random.choices((0, 1, 4_000_000_000), (92, 2, 6))[0],
            not_before=time.time() + self.random.randint(1, 4) if later else 0,
            timestamp_ms=at,
            domain_max_pages=domain_cap,
            max_pages=crawl_cap,
        )

    def _apply(
        self, feed: Feed, record: Seed | Command, now: int, wall: int
    ) -> tuple[int | None, str | None]:
        """The run that a record enters, and why it does not."""
        model, place, at = self.model, feed.partition, record.timestamp_ms
        if isinstance(record, Command):
            if record.name == "stop" and record.crawl:
                model.stop(record.crawl, place=place, at=at)
            elif record.name in {"pause", "resume", "reprioritize"} and record.crawl:
                model.steer(record.crawl, record.name, record.priority, now)
            return None, None
        url, origin = support.entry_of(record.entry)
        nowhere = Generation(record.crawl)
        spider = record.crawl.spiderid
        item = Item(url, origin, spider, record.domain, record.priority, nowhere)
        entered = model.feed(record.crawl, item, expires=record.expires, place=place, at=at)
        if isinstance(entered, str):
            return None, entered
        not_before = int(record.not_before * 1000)
        due = now + not_before - wall if not_before > wall else None
        return entered, model.admit_seed(item, record.fingerprint, due)

    async def resume_all(self) -> None:
        """Nothing is paused any more."""
        feed, crawls = self._feeds[0], [*self.model.latest]
        await feed.put(*(feed.command("resume", crawl) for crawl in crawls))
        now = self.redis.now
        for crawl in crawls:
            self.model.steer(crawl, "resume", None, now)
        await self._revisit()
