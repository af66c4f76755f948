"""Random life of a small frontier, each step checked against the model and by the auditor."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

from redis.asyncio import Redis

from crawlstream.frontier.packing import unpack
from crawlstream.model.crawl import Hold
from crawlstream.model.effects import (
    Command,
    Exchanged,
    IntakeBatch,
    Links,
    Outcome,
    Owed,
    Release,
    Requeue,
    Seed,
    Sent,
    Settle,
)
from crawlstream.model.throttle import ThrottleRule
from support import frontier as support
from support.frontier import GRACE_MS, KEYS, Bench, Feed, Worker, open_bench
from support.frontier_audit import audit, left_over
from support.frontier_model import DEADLINE_MS, Model
from support.frontier_spilling import Spilling, children_of
from support.frontier_values import Generation, Held, Item
from support.frontier_world import (
    CAPS,
    COMMANDS,
    CRAWLS,
    DOMAINS,
    HOUR_MS,
    LEDGER,
    MOST_GAINED_MS,
    RULES,
    SHARED,
    UNKNOWN,
    Told,
)


class Machine:
    """One random life; everything random comes from ``random``."""

    def __init__(self, bench: Bench, random: Random) -> None:
        self.bench = bench
        self.random = random
        self.model = Model(support.WIDE_OPEN, CAPS)
        self.feeds = [bench.feed, bench.another_feed(1)]
        self.workers: dict[str, Worker] = {}
        self.born = 0
        self.event_time = 1_000
        self.rules: dict[str, ThrottleRule] = {}
        self.default = support.WIDE_OPEN
        self.last: tuple[Feed, IntakeBatch] | None = None
        self.reaped: list[tuple[str, int]] = []
        self.spilling = Spilling(bench, random, self.model)
        self._watch_reaping()

    def _watch_reaping(self) -> None:
        """Note which workers are reaped, and exactly when."""
        run = self.bench.frontier._run

        async def run_and_note(operation: str, *args: Any) -> object:
            answer = await run(operation, *args)
            if operation == "reap":
                now, _ = await self._times()
                self.reaped.append((unpack(answer)[0].decode(), now))
            return answer

        self.bench.frontier._run = run_and_note

    async def live(self, steps: int) -> None:
        """Take random steps, then let everything come to its end."""
        actions: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (20, self.feed),
            (50, self.exchange),
            (15, self.pass_time),
            (10, self.tend),
            (4, self.crash),
            (2, self.retire),
            (3, self.reconcile),
            (5, self.change_rules),
            (3, self.restart),
            (3, self.step_clock),
            (2, self.repeat_feed),
            (8, self.recall),
            (2, self.spilling.repeat),
        ]
        await self._limit()
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            ((_, action),) = self.random.choices(actions, weights)
            await action()
            await self.check()
        await self.end()

    async def _limit(self) -> None:
        """Sometimes only so many entries may wait."""
        model = self.model
        model.most_of_crawl = self.random.choice((0, 0, 0, 8))
        model.most_of_all = self.random.choice((0, 0, 0, 15))
        self.bench.limit(most_queued_of_crawl=model.most_of_crawl, most_queued=model.most_of_all)
        await self.bench.tend()

    async def check(self) -> None:
        """Nothing is wrong in Redis, and every ledger is as the model says."""
        state = await audit(self.bench.redis)
        for crawl, generation in self.model.latest.items():
            number = state.get("names")[KEYS.crawl_field(crawl).encode()].split()[0].decode()
            fields = {name.decode(): text for name, text in state.get(f"x:{number}").items()}
            known = (int(fields["run"]), fields["state"].decode())
            assert known == (generation.run, generation.state), (crawl, fields, generation)
            for name in LEDGER:
                assert int(fields.get(name, 0)) == generation.ledger[name], (name, fields)
            filtered = {name[2:]: int(n) for name, n in fields.items() if name[:2] == "z:"}
            assert filtered == +generation.filtered, (fields, generation)

    # Feeding.

    async def feed(self) -> None:
        """A batch of one Kafka partition, with seeds, stops and other commands."""
        feed = self.random.choice(self.feeds)
        records = [self._record(feed) for _ in range(self.random.randint(1, 5))]
        batch = feed.batch(*records)
        answer = await feed.frontier.intake(batch)
        self.last = (feed, batch)
        assert answer.applied == len(records)
        now, wall = await self._times()
        for record in records:
            run, refusal = self._apply(feed, record, now, wall)
            assert answer.runs.get(record.offset) == run, (record, answer)
            assert answer.refused.get(record.offset) == refusal, (record, answer)
        await self._revisit()
        self.model.note_idle(now)
        await self._take_events()

    async def _revisit(self) -> None:
        """What was resumed or reprioritized stands where it should; in steps, as `tend` does it."""
        while await self.bench.frontier._run("revisit", 2):
            pass

    async def repeat_feed(self) -> None:
        """The answer to the last batch was lost; it changes nothing a second time."""
        if self.last:
            feed, batch = self.last
            start = max(batch.start - self.random.randint(0, 2), 0)
            answer = await feed.frontier.intake(replace(batch, start=start))
            assert (answer.applied, dict(answer.runs)) == (0, {})

    def _record(self, feed: Feed) -> Seed | Command:
        self.event_time += self.random.randint(1, 5)
        at = self.event_time - (self.random.choice((0, 0, 8)) if feed.partition else 0)
        crawl = self.random.choice(CRAWLS)
        if self.random.random() < 0.2:
            name = self.random.choice(COMMANDS)
            priority = self.random.choice((1, 50, 70, 100)) if name == "reprioritize" else None
            return feed.command(name, crawl, timestamp_ms=at, priority=priority)
        domain = self.random.choice(DOMAINS[crawl.spiderid])
        later = self.random.random() < 0.1
        domain_cap, crawl_cap = CAPS[crawl]
        return feed.seed(
            f"{domain}/{self.random.randint(0, 12)}",
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

    # Working.

    async def exchange(self) -> None:
        """A worker tells some of what happened, and leases."""
        worker = self._worker()
        told = self._tell(worker)
        want = self.random.choice((0, 1, 1, 2, 5, 20))
        answer = await worker.exchange(**vars(told), want=want)
        assert all(token == UNKNOWN for token in answer.stale)
        await self._after_exchange(worker, told, answer, want)
        if self.random.random() < 0.15:
            await self._repeat_exchange(worker, told, list(answer.holds), want=want)

    def _worker(self) -> Worker:
        if not self.workers or (len(self.workers) < 4 and self.random.random() < 0.1):
            self.born += 1
            name = f"w{self.born}"
            self.workers[name] = self.bench.another_worker(name, self.random.choice((*DOMAINS,)))
        return self.random.choice(list(self.workers.values()))

    def _tell(self, worker: Worker) -> Told:
        told, chance = Told(), self.random.random
        sent_ms = self.random.choice((None, 0, 3, 400))
        for token, held in self.model.holds.get(worker.name, {}).items():
            if chance() < 0.4 and sent_ms is not None:
                told.sent.append(Sent(token, sent_ms, chance() < 0.5))
            delay_ms = self.random.choice((0, 0, 700))
            fate = chance()
            if fate < 0.4:
                settle = self.spilling.maybe(worker, held, self._settle(token, held))
                told.settles += [settle] if settle else []
            elif fate < 0.5:
                told.requeues.append(Requeue(token=token, delay_ms=delay_ms, sent_ms=sent_ms))
            elif fate < 0.6:
                told.releases.append(Release(token=token, delay_ms=delay_ms, sent_ms=sent_ms))
        if chance() < 0.1:
            told.settles.append(Settle(token=UNKNOWN, outcome=Outcome.DONE))
        return told

    def _settle(self, token: str, held: Held) -> Settle:
        return Settle(
            token=token,
            outcome=self.random.choice((Outcome.DONE, Outcome.DONE, *Outcome)),
            reason=self.random.choice(("", "2xx", "other")),
            links=[self._links(held) for _ in range(self.random.choice((0, 1, 1, 2)))],
            filtered=self.random.choice(({}, {"depth": 3, "regex": 1})),
        )

    def _links(self, held: Held) -> Links:
        spider = held.item.spider
        if self.random.random() < 0.1:
            spider = self.random.choice((*DOMAINS,))
        paths = [self.random.randint(0, 12) for _ in range(self.random.choice((0, 1, 4)))]
        return support.links(
            self.random.choice(DOMAINS[spider]),
            paths,
            priority=held.item.priority - 10,
            spiderid=spider,
            counts=self.random.random() < 0.9,
        )

    async def _after_exchange(
        self, worker: Worker, told: Told, answer: Exchanged, want: int
    ) -> None:
        now, _ = await self._times()
        name, model = worker.name, self.model
        model.deadlines[name] = now + DEADLINE_MS
        self._apply_told(name, told, now)
        if want:
            model.promote_delayed(worker.spiderid, now)
        self._check_grants(worker, answer, want, now)
        model.note_idle(now)
        await self._take_events()

    def _apply_told(self, name: str, told: Told, now: int) -> None:
        model, holds = self.model, self.model.holds.get(name, {})
        for sent in told.sent:
            model.report(holds[sent.token], now, sent.after_ms)
            holds[sent.token].is_received |= sent.received
        for settle in told.settles:
            if settle.token in holds:
                self._apply_settle(name, settle, now)
        for requeue in told.requeues:
            item = model.end(name, requeue.token, now, requeue.sent_ms)
            item.retries, item.priority = item.retries + 1, item.priority - 10
            model.put_back(item, now, requeue.delay_ms, in_front=False)
        for release in told.releases:
            item = model.end(name, release.token, now, release.sent_ms)
            model.put_back(item, now, release.delay_ms, in_front=True)

    def _apply_settle(self, worker: str, settle: Settle, now: int) -> None:
        generation = self.model.holds[worker][settle.token].item.of
        for group in settle.links:
            self.model.admit_links(children_of(group, generation), counts=group.counts)
        self.model.register(worker, settle.token, settle.spilled)
        generation.filtered.update(settle.filtered)
        self.model.end(worker, settle.token, now, settle.sent_ms)
        generation.ledger[settle.outcome.value] += 1

    def _check_grants(self, worker: Worker, answer: Exchanged, want: int, now: int) -> None:
        assert len(answer.holds) <= want
        for hold in answer.holds:
            self.model.take(worker.name, worker.spiderid, hold, now)
        names = set(DOMAINS[worker.spiderid]) - {SHARED}
        if want and len(answer.holds) == want:
            held = self.model.holds[worker.name]
            items = [held[hold.token].item for hold in answer.holds]
            worst = min(item.priority + item.of.shift for item in items)
            self.model.check_nothing_better(worker.spiderid, names, now, worst)
        elif want and answer.next_due_ms != 0:
            self.model.check_nothing_better(worker.spiderid, names, now, -1_000)

    async def _repeat_exchange(
        self, worker: Worker, told: Told, before: list[Hold], *, want: int
    ) -> None:
        """The answer was lost: the same call again ends nothing twice and grants the same."""
        worker.frontier._call -= 1
        answer = await worker.exchange(**vars(replace(told, sent=[])), want=want)
        assert told.ended <= answer.stale
        if before:
            assert [h.token for h in answer.holds] == [h.token for h in before]
            answer, want = replace(answer, holds=()), 0
        await self._after_exchange(worker, Told(), answer, want)

    # What else may happen.

    async def recall(self) -> None:
        """The next records of what was spilled come back."""
        await self.spilling.recall()
        now, _ = await self._times()
        self.model.note_idle(now)
        await self._take_events()

    async def pass_time(self) -> None:
        """Some time passes; seldom very much."""
        await self.bench.advance(self.random.choice((50, 300, 1_100, 3_500, 16_000, 70_000)))

    async def crash(self) -> None:
        """A worker dies; sometimes its successor tells so and blames a page."""
        if not self.workers:
            return
        name = self.random.choice(list(self.workers))
        worker = self.workers.pop(name)
        if self.random.random() < 0.5:
            return
        blamed = self.random.choice([*self.model.holds.get(name, {}), ""])
        returned = await worker.frontier.blame(name, blamed)
        now, _ = await self._times()
        assert returned == self.model.reap(name, now, blamed)
        self.model.note_idle(now)
        await self._take_events()

    async def retire(self) -> None:
        """A worker ends in good order."""
        if not self.workers:
            return
        name = self.random.choice(list(self.workers))
        worker = self.workers.pop(name)
        tokens = set(self.model.holds.get(name, {}))
        assert await worker.frontier.retire(name) == len(tokens)
        now, _ = await self._times()
        self.model.retire(name, now, tokens)
        self.model.forget_worker(name)
        self.model.note_idle(now)

    async def reconcile(self) -> None:
        """A worker has forgotten some holds."""
        if not self.workers:
            return
        worker = self.random.choice(list(self.workers.values()))
        holds = self.model.holds.get(worker.name, {})
        alive = {token for token in holds if self.random.random() < 0.6}
        lost = await worker.frontier.reconcile(worker.name, [*alive, UNKNOWN])
        now, _ = await self._times()
        assert list(lost) == [UNKNOWN]
        old = {t for t, held in holds.items() if t not in alive and now - held.since > 15_000}
        self.model.retire(worker.name, now, old)
        self.model.note_idle(now)

    async def change_rules(self) -> None:
        """Another table rules."""
        if self.random.random() < 0.3:
            self.default = self.random.choice(RULES[:-1])
        else:
            domain = self.random.choice([name for names in DOMAINS.values() for name in names])
            self.rules[domain] = self.random.choice(RULES)
        await self._rule()

    async def _rule(self) -> None:
        await self.bench.rule(self.default, self.rules)
        now, _ = await self._times()
        self.model.default = self.default
        for names in DOMAINS.values():
            for name in names:
                rule, domain = self.rules.get(name, self.default), self.model.domain(name)
                if rule != domain.rule:
                    domain.rule, domain.ruled_since = rule, now

    async def restart(self) -> None:
        """Redis is another process."""
        await self.bench.pretend_restart()
        await self.bench.frontier.beat("nobody")
        self.model.restarted_at, _ = await self._times()
        await self.bench.frontier.retire("nobody")

    async def step_clock(self) -> None:
        """The machine's clock is set, by an hour in either direction: no time passes by that."""
        before, _ = await self._times()
        step_ms = self.random.choice((-HOUR_MS, HOUR_MS))
        await self.bench.redis.hincrby(KEYS.meta(), "wall", step_ms)
        await self.bench.frontier.beat("nobody")
        now, _ = await self._times()
        await self.bench.frontier.retire("nobody")
        assert 0 <= now - before < MOST_GAINED_MS, (before, now)

    # Care.

    async def tend(self) -> None:
        """Endings, reaping, sweeping."""
        before, _ = await self._times()
        self.model.expire_late()
        self.reaped.clear()
        await self.bench.tend()
        now, _ = await self._times()
        for name, at in self.reaped:
            assert self.model.deadlines[name] <= at, ("reaped too early", name)
            self.model.reap(name, at)
        assert all(at > before for at in self.model.deadlines.values()), "not reaped"
        self.model.note_idle(now)
        await self._take_events()
        for generation in self.model.overdue(before):
            raise AssertionError(("not ended", generation))
        await self._sync_forgotten()

    async def _sync_forgotten(self) -> None:
        """Learn which finished crawls have lost their dedupe: when, is a test of its own."""
        for crawl, generation in list(self.model.latest.items()):
            field = KEYS.crawl_field(crawl)
            text = await self.bench.redis.hget(KEYS.names(), field)
            if generation.takes_seeds and (text is None or text.endswith(b" 0")):
                assert generation.state == "finished"
                generation.takes_seeds = False
            if text is None:
                self.model.forget(crawl)

    async def _take_events(self) -> None:
        """What was owed is what the model expects, and every ending has the right counters."""
        async with self.bench.redis.pipeline(transaction=False) as pipe:
            pipe.xlen(KEYS.outbox()).hget(KEYS.meta(), "clock")
            length, now = map(int, await pipe.execute())
        for owed in await self.bench.owed() if length else ():
            if owed.kind in {"crawl_finished", "crawl_stopped", "crawl_expired"}:
                self._check_ending(owed, now)
            self.model.owed[owed.kind, owed.crawl, owed.run] -= 1
        assert not any(self.model.owed.values()), self.model.owed
        self.model.owed.clear()

    def _check_ending(self, owed: Owed, now: int) -> None:
        (generation,) = (
            one
            for one in self.model.generations
            if (one.crawl, one.run) == (owed.crawl, owed.run)
            and one.state in {"running", "stopping", "expiring"}
        )
        assert not generation.left
        if generation.state == "running":
            assert not generation.is_paused
            assert generation.idle_since is not None
            assert generation.idle_since + GRACE_MS <= now, "too early"
        for name in ("admitted", "done", "failed", "redirected", "stopped", "expired"):
            assert owed.counters[name] == generation.ledger[name], (name, owed, generation)
        assert dict(owed.reasons["filtered"]) == +generation.filtered
        self.model.finish(generation)

    # The end.

    async def end(self) -> None:
        """Crawl all that is left; then nothing remains but what is permanent."""
        self.default, self.rules = support.WIDE_OPEN, {}
        await self._rule()
        await self._resume_all()
        while self.spilling.is_left:
            await self.recall()
        await self.bench.advance(70_000)
        await self.tend()
        for spider in DOMAINS:
            await self._drain(self.bench.another_worker(f"last-{spider}", spider))
        for ms in (3_100, 61_000, HOUR_MS, HOUR_MS, HOUR_MS):
            await self.bench.advance(ms)
            await self.tend()
        state = await audit(self.bench.redis)
        assert {name for name in left_over(state) if not name.startswith("stop:")} == set()
        over = {"finished", "stopped", "expired"}
        assert all(one.state in over for one in self.model.generations)

    async def _resume_all(self) -> None:
        feed, crawls = self.feeds[0], [*self.model.latest]
        await feed.put(*(feed.command("resume", crawl) for crawl in crawls))
        now, _ = await self._times()
        for crawl in crawls:
            self.model.steer(crawl, "resume", None, now)
        await self._revisit()

    async def _drain(self, worker: Worker) -> None:
        self.workers[worker.name] = worker
        for _ in range(2_000):
            answer = await worker.exchange(want=50)
            await self._after_exchange(worker, Told(), answer, 50)
            if answer.holds:
                told = Told(settles=[_done(hold) for hold in answer.holds])
                await self._after_exchange(worker, told, await worker.exchange(**vars(told)), 0)
            elif answer.next_due_ms is None:
                return
            else:
                await self.bench.advance(max(answer.next_due_ms, 1))
        raise AssertionError("something is never due")

    async def _times(self) -> tuple[int, int]:
        """The frontier clock and the machine's, as the last call saw them."""
        clock, wall = await self.bench.redis.hmget(KEYS.meta(), "clock", "wall")
        return int(clock), int(wall)


def _done(hold: Hold) -> Settle:
    return Settle(token=hold.token, outcome=Outcome.DONE, reason="2xx", sent_ms=0)


async def run_machine(redis: Redis, seed: int, steps: int) -> None:
    """One random life from one number."""
    await redis.flushdb()
    machine = Machine(await open_bench(redis), Random(seed))
    await machine.live(steps)
