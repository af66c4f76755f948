"""The table of faults that the cluster is meant to outlive: each row one scenario by name."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import partial

from redis.exceptions import RedisError

from crawlstream.boot.failpoints import STEPS
from crawlstream.chaos.auditor import EMPTIES_SHELF
from crawlstream.chaos.cluster import ChaosCluster
from crawlstream.chaos.extra_processes import death_of, extra_crawler, is_up
from crawlstream.chaos.facts import FedCrawl, RoundFailed
from crawlstream.chaos.faults import Fault
from crawlstream.chaos.nemesis import FAULTS, kept_full
from crawlstream.chaos.pipelines.faults import OF_PIPELINES
from crawlstream.chaos.rounds import Outcome, Round, rate_for
from crawlstream.chaos.scenes.browsers import OF_RENDERERS
from crawlstream.chaos.scenes.poison import eat_poison
from crawlstream.chaos.scenes.proxied import play_proxied
from crawlstream.chaos.scenes.rendered import play_rendered
from crawlstream.chaos.truncated_log import lose_end_of_log
from crawlstream.errors import CrawlstreamError
from crawlstream.keys import FrontierKeys
from crawlstream.tasks import beside, wait_until

Script = Callable[[Round], Awaitable[None]]

_AT_ONCE = 3
_PASSES = 3
"""How often a step is passed before it kills: some pages are settled, some are under way."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A row of the table: what is done, and what must hold beside the laws."""

    name: str
    about: str
    script: Script
    shortest_s: float = 12
    """A round that is shorter would be over before its faults."""
    rate: float = 0
    """Requests a host and second while faults strike; 0: so that the web lasts for the round."""
    has_pipelines: bool = False
    """Whether pipelines store what is crawled."""
    has_shelf: bool = False
    """Whether the middle of queues is on a server of its own."""
    is_proxied: bool = False
    """Whether all pages go through proxies; these are what is struck."""
    is_rendered: bool = False
    """Whether browsers make all pages, on a web whose links only scripts make."""

    async def play(self, round_: Round) -> Outcome:
        """One round of it."""
        if self.is_rendered:
            return await play_rendered(round_, self.script, rate=self.rate)
        rate = self.rate or rate_for(round_)
        if self.is_proxied:
            return await play_proxied(round_, rate=rate)
        return await round_.play(self.script, rate=rate)


async def strike_in_turn(faults: Sequence[Fault], round_: Round) -> None:
    """One fault after the other while pages wait: each once, then at random until time is over."""
    await round_.feed_front_page()
    await _strike(faults, round_)


async def _strike(faults: Sequence[Fault], round_: Round, *, number: int = 0) -> None:
    context = replace(round_.context)
    context.random.seed(f"{round_.seed}/{number}")
    order = list(faults)
    context.random.shuffle(order)
    until = round_.began + round_.seconds
    await _first_pages(round_)
    while True:
        await asyncio.sleep(context.between(*round_.pause_s))
        if round_.is_over() or (not order and time.monotonic() > until):
            return
        await round_.strike(order.pop() if order else context.random.choice(faults), context)


async def _first_pages(round_: Round) -> None:
    await wait_until(lambda: round_.came > 0, timeout_s=120, every_s=0.2)


async def strike_at_once(faults: Sequence[Fault], round_: Round) -> None:
    """Several faults at a time, whatever comes together."""
    await round_.feed_front_page()
    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(_strike(faults, round_, number=number))


async def die_at_each_step(round_: Round) -> None:
    """A crawler for each step, which kills it there; all are up before there is work."""
    async with AsyncExitStack() as stack:
        dying = {
            step: await stack.enter_async_context(
                extra_crawler(round_.context, FAILPOINT=f"{step}:kill:{_PASSES}")
            )
            for step in STEPS
        }
        await wait_until(lambda: all(map(is_up, dying.values())), timeout_s=240, every_s=0.5)
        await round_.feed_front_page()
        await _first_pages(round_)
        async with asyncio.TaskGroup() as group:
            for step, crawler in dying.items():
                fault = Fault("die-at-step", "", partial(death_of, crawler, step))
                group.create_task(round_.strike(fault, round_.context))


async def feed_much(faults: Sequence[Fault], round_: Round) -> None:
    """As many requests as the web has pages, each to take effect once, fed while faults strike."""
    web, count = round_.cluster.web, len(round_.cluster.web.pages)
    urls = [
        f"{web.origin(web.hosts[number % len(web.hosts)])}/seed/{number}" for number in range(count)
    ]
    fed = FedCrawl(crawlid=f"{round_.name}-{web.port}", delivered=dict.fromkeys(urls, 404))
    parts = [urls[start::50] for start in range(50)]

    async def feed() -> None:
        for part in parts:
            await round_.feed(fed, *part)
            await asyncio.sleep(round_.seconds / 70)

    async with asyncio.TaskGroup() as group:
        feeding = group.create_task(feed())
        await round_.feed(fed)
        await _strike(faults, round_)
        await feeding
    # Were it over before the last seed is in, that would begin another run.
    await wait_until(partial(_is_admitted, round_, fed), timeout_s=240, every_s=0.2)


async def _is_admitted(round_: Round, fed: FedCrawl) -> bool:
    """Whether all its seeds are in the frontier."""
    with suppress(CrawlstreamError, RedisError, OSError):
        state = await round_.cluster.frontier.queries.crawl_state(fed.key, with_domains=False)
        return state is not None and state.admitted >= len(fed.delivered)
    return False


async def ask_much(faults: Sequence[Fault], round_: Round) -> None:
    """Crawls are stopped, twice under the same ids, and asked about, while faults strike."""
    await round_.feed_front_page()
    (main,) = round_.fed

    async def ask() -> None:
        number = 0
        while True:
            number += 1
            web = round_.cluster.web
            fed = round_.cluster.fed(f"{round_.name}-{number}-{web.port}")
            fed = replace(fed, is_stopped=True)
            await round_.feed(fed, web.seed_url, maxdepth=99, priority=90)
            await asyncio.gather(*(round_.ask(fed, "stop") for _ in range(2)))
            await round_.ask(main, "info")
            await asyncio.sleep(0.5)

    async with beside(ask()):
        await _strike(faults, round_)
    await _answered(round_.cluster, tuple(round_.asked))


_FEW, _MANY = 40, 300
"""Seeds that are soon done, and that are not while they are few enough to wait."""


async def live_full(faults: Sequence[Fault], round_: Round) -> None:
    """Redis has not a byte to spare for the whole round: what needs no room goes on, and is told.

    Pages of hosts whose robots.txt nobody knows come, a crawl of seeds ends, questions are answered
    and stops take effect, behind seeds that wait, too; and all that while processes die.
    """
    cluster, urls = round_.cluster, round_.cluster.plain_urls()
    few = urls[:: max(1, len(urls) // _FEW)]
    drains, later = round_.crawl_of("drains", few), round_.crawl_of("later", few)
    doomed = [
        replace(round_.crawl_of(name, urls[:_MANY]), is_stopped=True)
        for name in ("doomed", "sooner")
    ]
    await round_.feed(drains, *few, maxdepth=0, priority=90)
    for fed in doomed:
        await round_.feed(fed, *fed.delivered, maxdepth=0)
    await round_.feed_front_page()
    await _first_pages(round_)
    for fed in (drains, *doomed):
        await wait_until(partial(_is_admitted, round_, fed), timeout_s=240, every_s=0.2)
    async with kept_full(cluster), asyncio.TaskGroup() as group:
        full_until = time.monotonic() + round_.seconds
        await _forget_robots(cluster)
        answers = [await round_.ask(drains, "info"), await round_.ask(doomed[0], "stop")]
        await _answered(cluster, answers)
        await round_.feed(later, *few, maxdepth=0)
        group.create_task(_strike(faults, round_))
        await _answered(cluster, [await round_.ask(doomed[1], "stop")])
        for fed in (drains, *doomed):
            await cluster.recorder.ended(fed.crawlid, timeout_s=240)
        await asyncio.sleep(full_until - time.monotonic())
        if cluster.recorder.results(later.crawlid):
            raise RoundFailed("a seed has entered a full Redis")


async def _forget_robots(cluster: ChaosCluster) -> None:
    """Nobody knows what the hosts ask of robots, but for processes that have read it."""
    origins = map(cluster.web.origin, cluster.web.hosts)
    await cluster.redis.unlink(*map(FrontierKeys().robots, origins))


async def _answered(cluster: ChaosCluster, uuids: Sequence[str]) -> None:
    for uuid in uuids:
        await cluster.recorder.answered(uuid, timeout_s=120)


async def lose_a_log(round_: Round) -> None:
    """The log of a partition loses its end, which has taken effect; what is fed then stands there.

    Nothing that was fed before is lost with it, or crawled twice, for all of it has taken effect.
    What is fed before a person decides waits, in this partition, and takes effect in all others.
    After the decision all of it is crawled. What Kafka loses before it takes effect would be gone;
    no law of ours speaks of that, and nobody feeds anything at that moment.
    """

    async def feed_all(crawls: Sequence[FedCrawl]) -> None:
        for fed in crawls:
            await round_.feed(fed, *fed.delivered, maxdepth=0)

    async def have_entered(crawls: Sequence[FedCrawl]) -> None:
        for fed in crawls:
            await wait_until(partial(_is_admitted, round_, fed), timeout_s=240, every_s=0.2)

    async def feed_later(lost: int) -> None:
        await feed_all([fed for _, fed in later])
        await have_entered([fed for partition, fed in later if partition != lost])
        waiting = [fed for partition, fed in later if partition == lost]
        if not waiting or any([await _is_admitted(round_, fed) for fed in waiting]):
            raise RoundFailed(f"partition {lost} has gone on before a person decided")

    early = [fed for _, fed in await round_.crawls_of_partitions("early")]
    later = await round_.crawls_of_partitions("later")
    await round_.feed_front_page()
    await feed_all(early)
    await have_entered(early)
    await _first_pages(round_)
    inject = partial(lose_end_of_log, meanwhile=feed_later)
    await round_.strike(replace(FAULTS["truncate-log"], inject=inject), round_.context)
    await have_entered([fed for _, fed in later])


def _named(*names: str) -> Sequence[Fault]:
    return [FAULTS[name] for name in names]


def _in_turn(*names: str) -> Script:
    return partial(strike_in_turn, _named(*names))


def _at_once(faults: Sequence[Fault]) -> Script:
    return partial(strike_at_once, faults)


_OF_NETWORKS = [
    name
    for name, fault in FAULTS.items()
    if name.startswith(("cut-", "slow-", "mute-", "half-open-")) and fault.is_for_all
]
_AROUND_SHELF = (
    *("kill-shelf", "freeze-shelf", "cut-shelf", "mute-shelf", "kill-redis", "power-cut"),
    *("mute-redis", "kill-redis-monitor", "freeze-redis-monitor", "end-redis-monitor"),
    *("kill-crawler", "step-clock"),
)
_BESIDE_PIPELINES = (
    *("kill-crawler", "die-at-step", "freeze-crawler", "kill-redis", "kill-kafka", "freeze-kafka"),
    *("cut-kafka", "mute-kafka", "half-open-kafka"),
)
EVERY = [fault for fault in FAULTS.values() if fault.is_for_all]

SCENARIOS: Mapping[str, Scenario] = {
    scenario.name: scenario
    for scenario in (
        Scenario(
            "crawler-kill",
            "a crawler killed -9 at random every 0.5 to 5 s",
            _in_turn("kill-crawler"),
        ),
        Scenario(
            "crawler-steps",
            "a crawler killed at each step between lease and complete",
            die_at_each_step,
            shortest_s=30,
        ),
        Scenario(
            "crawler-frozen",
            "crawlers frozen at some step past their deadline, then continued",
            # Side by side, because each takes so long.
            _at_once(_named("freeze-long")),
            shortest_s=60,
        ),
        Scenario(
            "feed",
            "kafka-monitor killed during many requests, rebalances, more partitions",
            partial(feed_much, _named("kill-kafka-monitor", "rebalance", "add-partitions")),
            # Some seeds always wait: a crawl without work is over, and the next seed begins anew.
            rate=1,
        ),
        Scenario(
            "stop",
            "redis-monitor killed while crawls are stopped, each twice",
            partial(ask_much, _named("kill-redis-monitor")),
        ),
        Scenario("redis-kill", "Redis killed -9 and restarted", _in_turn("kill-redis")),
        Scenario("redis-power", "Redis' host loses its power", _in_turn("power-cut")),
        Scenario("redis-empty", "Redis emptied", _in_turn("empty-redis"), shortest_s=20),
        Scenario("kafka", "Kafka killed or frozen", _in_turn("kill-kafka", "freeze-kafka")),
        Scenario(
            "zookeeper",
            "ZooKeeper killed or frozen, its node emptied or broken",
            _in_turn("kill-zookeeper", "freeze-zookeeper", "break-rules"),
        ),
        Scenario(
            "clocks",
            "clocks of crawlers an hour off, Redis' clock set forwards and back",
            _in_turn("wrong-clock", "step-clock"),
            shortest_s=25,
        ),
        Scenario("memory", "Redis at maxmemory", _in_turn("fill-redis")),
        Scenario(
            "full",
            "Redis kept at maxmemory for a minute and more while processes are killed",
            partial(
                live_full,
                _named("kill-crawler", "kill-kafka-monitor", "kill-redis-monitor", "cut-redis"),
            ),
            shortest_s=60,
        ),
        Scenario(
            "log-truncated",
            "a partition of incoming loses its end and waits, until a person decides",
            lose_a_log,
            shortest_s=60,
        ),
        Scenario("poison", "a page that kills its worker", eat_poison),
        Scenario(
            "network",
            "a bad network before Redis and Kafka",
            _in_turn(*_OF_NETWORKS),
        ),
        Scenario(
            "proxies",
            "pages through 20 proxies that are killed, frozen, muted, locked; all gone twice",
            Round.feed_front_page,
            shortest_s=60,
            is_proxied=True,
        ),
        Scenario(
            "render",
            "pages that browsers make; crawlers and their browsers killed and frozen",
            _in_turn(*(fault.name for fault in OF_RENDERERS)),
            is_rendered=True,
        ),
        Scenario(
            "pipeline",
            "processes and stores of pipelines struck while crawlers and Kafka are, too",
            _at_once([*OF_PIPELINES, *_named(*_BESIDE_PIPELINES)]),
            shortest_s=90,
            has_pipelines=True,
        ),
        Scenario(
            "shelf",
            "the shelf of long queues killed, frozen, cut off; Redis and its monitors, too",
            _at_once(_named(*_AROUND_SHELF)),
            shortest_s=30,
            has_shelf=True,
        ),
        Scenario(
            "shelf-empty",
            "the shelf emptied: what it had fails by name, all else comes",
            _in_turn(EMPTIES_SHELF),
            shortest_s=20,
            has_shelf=True,
        ),
        Scenario(
            "combined", "three faults at a time, of all kinds", partial(strike_at_once, EVERY)
        ),
    )
}


def chosen(faults: Sequence[str]) -> Scenario:
    """What a person asked for: a scenario, or some faults in turn."""
    is_rendered = any(fault.name in faults for fault in OF_RENDERERS)
    about = ", ".join(faults)
    return Scenario("chosen", about, _in_turn(*faults), is_rendered=is_rendered)
