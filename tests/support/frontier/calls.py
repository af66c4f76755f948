"""Calls of every operation, as the product makes them, noted while random lives are lived."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, NamedTuple

import pytest
from redis.asyncio import Redis

from crawling.robots.robots_book import RobotsBook, RobotsNote
from crawlstream.boot.settings import Settings
from crawlstream.keys import Partitions
from crawlstream.model.crawl import Budgets, FiringKey
from crawlstream.model.effects import Seed
from crawlstream.model.egress.pools import PoolTable
from crawlstream.model.partitions.messages import Spent
from crawlstream.model.recurring.schedule import Fired, Schedule, ScheduleMark, Turn
from crawlstream.model.run_marks import RunMark
from crawlstream.model.throttle_table import Reaction, SiteReaction
from crawlstream.model.words.price import Price
from crawlstream_frontier import sources
from crawlstream_frontier.egress.purse import Purse
from crawlstream_frontier.egress.purses import Buyer, Purses
from crawlstream_frontier.layout import create_partitions
from crawlstream_frontier.moving.filling import Filling
from crawlstream_frontier.moving.move import Move, read_frontier
from crawlstream_frontier.moving.withdrawal import Withdrawal
from crawlstream_frontier.opening.identity import join_cluster
from crawlstream_frontier.proxy_reports import (
    PoolSpend,
    ProxyBan,
    ProxyOutcome,
    ProxyReport,
    ProxyRest,
    ProxyUse,
)
from crawlstream_frontier.scrapes.door import Door, DoorBounds, ScrapeTicket
from crawlstream_frontier.scripts import Scripts
from crawlstream_frontier.waste.packing import pack as pack_sketch
from crawlstream_frontier.waste.persons import PersonVerdict, PersonWord
from crawlstream_frontier.waste.sketch import Sketch
from crawlstream_frontier.worker.sketch_store import SketchWrite
from support.frontier.bench import CRAWL, KEYS, Bench, links, open_bench
from support.frontier.machine import run_machine
from support.frontier.witness import Witness
from support.partitions.limits.replay import replay_credits
from support.partitions.moving import frontiers_in
from support.partitions.traces import replay_walk
from support.partitions.two import open_two

AT = 2_000_000_000
LIVES = 8
"""Together they make every call of a worker, an intake and a monitor."""
WALKS = (0, 3, 4)
"""Together they make every call of several partitions."""
CLOCK = 2
"""Number of last arguments, which have the caller's knowledge of the frontier clock."""


class Call(NamedTuple):
    """A call that Python made, and its answer."""

    operation: str
    arguments: tuple[Any, ...]
    """Without the clock."""
    answer: Any


async def note_calls(port: int) -> Sequence[Call]:
    """Make every call of the product on a Redis; in their order."""
    seen = list[Call]()
    call = Scripts._call

    async def noted(self: Scripts, operation: str, args: Sequence[Any]) -> Any:
        answer = await call(self, operation, args)
        is_timed = sources.is_timed(operation)
        arguments = args[:-CLOCK] if is_timed else args
        seen.append(Call(operation, tuple(arguments), answer[0] if is_timed else answer))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scripts, "_call", noted)
        async with Witness(port, 1) as redis:
            for seed in range(LIVES):
                await run_machine(redis, seed, 20)
            await _ask(redis)
            for seed in WALKS:
                await replay_walk(redis, Random(seed), f"{seed}")
            await replay_credits(redis, Random(0))
            await _expire(redis)
    return seen


async def _expire(redis: Redis) -> None:
    """Call the operations of a coordinator that time or a query causes."""
    two = await open_two(redis)
    seeds = [seed for seed in two.records if isinstance(seed, Seed)]
    two.records = [replace(seed, expires=1, budgets=Budgets(max_bytes=1)) for seed in seeds]
    await two.feed()
    home = two.parts[0].coordinator
    await home.spend([Spent(run.context, run.run, "max_bytes") for run in await home.spend([])])
    for note in (await home.overdue(0, 0)).to_note:
        await home.lapse(note)
    await home.runs([two.crawl])
    await home.reread(two.batch(0, 1))


async def _ask(redis: Redis) -> None:
    """Calls that no random life makes."""
    await redis.flushdb()
    bench = await open_bench(redis)
    frontier = bench.frontier
    robots = RobotsBook(lambda _: frontier.scripts)
    await bench.feed.seeds("http://a.example/", "http://a.example/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.session.put_links(lease.token, [links("a.example", range(3))])
    await _shelve(bench)
    await frontier.rules.agree("")
    await create_partitions(redis, Partitions("divided", 2))
    await join_cluster(Settings.model_validate({}), frontiers_in(redis, 1, KEYS.namespace))
    await frontier.pools.copy(PoolTable())
    await frontier.book.session("w1").exchange(_report(), is_user=True)
    await frontier.handshakes.failed("de", "a.example", "default", ["default", "legacy"])
    await _pay(frontier.purses)
    await _scrape(frontier.door)
    await frontier.maintenance.balance()
    await redis.hset(KEYS.tag + "abandon", "1", "0")
    await frontier.maintenance.tend()
    await frontier.queries.state()
    await frontier.queries.crawls(with_domains=True)
    await frontier.overflow.state()
    await frontier.positions.reposition("topic", 0, shown=0, offset=0)
    await frontier.queries.next_pages(CRAWL, 5)
    await frontier.inspector.page(CRAWL, "http://a.example/")
    await frontier.inspector.domain("a.example")
    _ = [found async for found in frontier.waiting.urls([CRAWL], "a.example")]
    await frontier.rules.gates(["=hoster"])
    await _fire(bench)
    await robots.claim("http://a.example", None)
    await robots.write("http://a.example", RobotsNote(b"none", 1.0))
    await frontier.sketches.replace([SketchWrite("a.example", None, pack_sketch(Sketch(), 1))])
    verdict = PersonVerdict("a.example", "?sort", 7, PersonWord.REFUSE, "anna")
    await frontier.person_verdicts.put(verdict)
    await frontier.person_verdicts.all()
    await frontier.person_verdicts.forget("a.example", "?sort")
    place = await bench.worker.session.reserve("a.example", takes_ms=1, within_ms=1)
    await bench.worker.session.reacted(place, SiteReaction(Reaction.REFUSAL))
    await _move(redis)


async def _scrape(door: Door) -> None:
    ticket = ScrapeTicket("client", "a.example", "1")
    await door.enter(ticket, DoorBounds(share=0.5, latest_s=1, forgotten_s=1, most=2))
    await door.leave(["1"])


async def _pay(purses: Purses) -> None:
    buyer, price = Buyer("news", "http://a.example:80", "a.example", "app", None), Price("USD", 1)
    await purses.put(Purse(name="news", currency="USD", day=9))
    await purses.quote(buyer, price)
    await purses.reserve(buyer, "1")
    await purses.settle("news", buyer.origin, "1", price=price, charged=1)
    await purses.all()
    await purses.details("news", [1])
    await purses.adopt("news")
    await purses.remove("news")


async def _move(redis: Redis) -> None:
    old, new = frontiers_in(redis, 1, KEYS.namespace), Filling(frontiers_in(redis, 2, "new"), None)
    await Withdrawal(old).begin("elsewhere")
    await Withdrawal(old).back()
    await Move(await read_frontier(old, None), new).run()
    await new.open()


def _report() -> ProxyReport:
    """With one of each list."""
    return ProxyReport(
        outcomes={"p": ProxyOutcome(answers=1, through=["a.example"])},
        rests=[ProxyRest("p", "a.example", 1_000, 0)],
        answers=[("p", "a.example")],
        uses=[ProxyUse("p", "a.example", 1, 10, 1_000)],
        spends={"de": PoolSpend(1, 1)},
        bans=[ProxyBan("p", "a.example", 1_000)],
    )


async def _shelve(bench: Bench) -> None:
    bench.shelve(4)
    await bench.frontier.stocking.step()
    await bench.feed.seeds(*(f"long.example/{n}" for n in range(8)))
    await bench.frontier.stocking.step()
    await bench.worker.lease(50)
    await bench.frontier.stocking.step()


async def _fire(bench: Bench) -> None:
    schedules = bench.frontier.schedules
    seeds = [{"url": "http://a.example/"}]
    schedule = Schedule(
        appid="app", name="nightly", cron="30 2 * * *", crawl={"crawlid": "crawl"}, seeds=seeds
    )
    await bench.feed.put(bench.feed.schedule("set", schedule, most=10))
    (state,) = (await schedules.due("me", most=10)).due
    await schedules.begin(state, 1, stops=False)
    await schedules.done(Turn(state=state, last=1, due=-1, fired=Fired(1, CRAWL, 1, 0, 0)))
    over = RunMark(
        crawl=CRAWL, state="finished", run=1, firing=FiringKey("nightly", AT), seen={0: b"\x80"}
    )
    await schedules.remind([over])
    await schedules.reinstate([ScheduleMark(appid="app", name="nightly", removed_ms=1)])
