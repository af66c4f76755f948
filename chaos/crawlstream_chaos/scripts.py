"""Scripts of rounds: crawls are fed, queried and stopped while faults strike."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from functools import partial

from redis.exceptions import RedisError

from crawlstream.boot.failpoints import STEPS
from crawlstream.errors import CrawlstreamError
from crawlstream.tasks import wait_until
from crawlstream_chaos.cluster import ChaosCluster
from crawlstream_chaos.facts.facts import FedCrawl, RoundFailed
from crawlstream_chaos.faults import Fault
from crawlstream_chaos.nemesis import FAULTS
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.strikes.extra_processes import death_of, extra_crawler, is_up
from crawlstream_chaos.strikes.redis import kept_full
from crawlstream_chaos.strikes.truncated_log import lose_end_of_log

_AT_ONCE = 3
_PASSES = 3
"""Number of times that a step is passed before it kills: some pages are settled, some in flight."""


async def strike_in_turn(faults: Sequence[Fault], round_: Round) -> None:
    """Strike while pages wait: each fault once, then at random until time is over."""
    await round_.feed_front_page()
    await strike_at_random(faults, round_)


async def strike_at_random(faults: Sequence[Fault], round_: Round, *, number: int = 0) -> None:
    """Strike what is fed already: each fault once, then at random until time is over."""
    context = replace(round_.context)
    is_divided = len(round_.cluster.frontier) > 1
    faults = [fault for fault in faults if is_divided or not fault.needs_partitions]
    context.random.seed(f"{round_.seed}/{number}")
    order = list(faults)
    context.random.shuffle(order)
    until = round_.began + round_.seconds
    await first_pages(round_)
    while True:
        await asyncio.sleep(context.between(*round_.pause_s))
        if round_.is_over() or (not order and time.monotonic() > until):
            return
        fault = order.pop() if order else context.random.choice(faults)
        # Crawls that were fed since may be struck, and come again, too.
        await round_.strike(fault, replace(context, crawls=round_.context.crawls))


async def first_pages(round_: Round) -> None:
    """Wait until a page has come."""
    await wait_until(lambda: round_.came > 0, timeout_s=120, every_s=0.2)


async def strike_at_once(faults: Sequence[Fault], round_: Round) -> None:
    """Several faults at a time, whatever comes together."""
    await round_.feed_front_page()
    async with asyncio.TaskGroup() as group:
        for number in range(_AT_ONCE):
            group.create_task(strike_at_random(faults, round_, number=number))


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
        await first_pages(round_)
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
        await strike_at_random(faults, round_)
        await feeding
    # Were it over before the last seed is in, that would begin another run.
    await wait_until(partial(is_admitted, round_, fed), timeout_s=240, every_s=0.2)


async def is_admitted(round_: Round, fed: FedCrawl) -> bool:
    """Return whether all its seeds are in the frontier."""
    with suppress(CrawlstreamError, RedisError, OSError):
        state = await round_.cluster.frontier.queries.crawl_state(fed.key, with_domains=False)
        return state is not None and state.admitted >= len(fed.delivered)
    return False


async def ask_much(faults: Sequence[Fault], round_: Round) -> None:
    """Crawls are stopped, twice under the same ids, and asked about, while faults strike."""
    await round_.feed_front_page()
    (main,) = round_.fed

    is_over = asyncio.Event()

    async def ask() -> None:
        number = 0
        while not is_over.is_set():
            number += 1
            web = round_.cluster.web
            fed = round_.cluster.fed(f"{round_.name}-{number}-{web.port}")
            fed = replace(fed, is_stopped=True)
            await round_.feed(fed, web.seed_url, maxdepth=99, priority=90)
            await asyncio.gather(*(round_.ask(fed, "stop") for _ in range(2)))
            await round_.ask(main, "info")
            await asyncio.sleep(0.5)

    async with asyncio.TaskGroup() as group:
        # Not cut off: a crawl that is fed is stopped.
        group.create_task(ask())
        await strike_at_random(faults, round_)
        is_over.set()
    await _answered(round_.cluster, tuple(round_.asked))


_FEW, _MANY = 40, 300
"""Seeds that are soon done, and that are not while they are few enough to wait."""


async def live_full(faults: Sequence[Fault], round_: Round) -> None:
    """Redis is full for the whole round: work that needs no room goes on, and is reported.

    Pages of hosts whose robots.txt is unknown come, a crawl of seeds ends, queries are answered and
    stops take effect, behind seeds that wait, too; and all that while processes die.
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
    await first_pages(round_)
    for fed in (drains, *doomed):
        await wait_until(partial(is_admitted, round_, fed), timeout_s=240, every_s=0.2)
    async with kept_full(cluster), asyncio.TaskGroup() as group:
        full_until = time.monotonic() + round_.seconds
        await _forget_robots(cluster)
        answers = [await round_.ask(drains, "info"), await round_.ask(doomed[0], "stop")]
        await _answered(cluster, answers)
        await round_.feed(later, *few, maxdepth=0)
        group.create_task(strike_at_random(faults, round_))
        await _answered(cluster, [await round_.ask(doomed[1], "stop")])
        for fed in (drains, *doomed):
            await cluster.recorder.ended(fed.crawlid, timeout_s=240)
        await asyncio.sleep(full_until - time.monotonic())
        if cluster.recorder.results(later.crawlid):
            raise RoundFailed("a seed has entered a full Redis")


async def _forget_robots(cluster: ChaosCluster) -> None:
    """Delete the hosts' robots.txt from the frontier; only processes that have read it know it."""
    for host in cluster.web.hosts:
        scripts = cluster.frontier.of_host(host).scripts
        await scripts.redis.unlink(scripts.keys.robots(cluster.web.origin(host)))


async def _answered(cluster: ChaosCluster, uuids: Sequence[str]) -> None:
    for uuid in uuids:
        await cluster.recorder.answered(uuid, timeout_s=120)


async def lose_a_log(round_: Round) -> None:
    """Let the log of a partition lose its end, which has taken effect; new seeds take its place.

    No seed that was fed before is lost with it, or crawled twice, for all of it has taken effect.
    Seeds that are fed before a person decides wait, in this partition, and take effect in all
    others. After the decision all of them are crawled. A seed that Kafka loses before it takes
    effect would be gone; no law covers that, and no seed is fed at that moment.
    """

    async def feed_all(crawls: Sequence[FedCrawl]) -> None:
        for fed in crawls:
            await round_.feed(fed, *fed.delivered, maxdepth=0)

    async def have_entered(crawls: Sequence[FedCrawl]) -> None:
        for fed in crawls:
            await wait_until(partial(is_admitted, round_, fed), timeout_s=240, every_s=0.2)

    async def feed_later(lost: int) -> None:
        await feed_all([fed for _, fed in later])
        await have_entered([fed for partition, fed in later if partition != lost])
        waiting = [fed for partition, fed in later if partition == lost]
        if not waiting or any([await is_admitted(round_, fed) for fed in waiting]):
            raise RoundFailed(f"partition {lost} has gone on before a person decided")

    early = [fed for _, fed in await round_.crawls_of_partitions("early")]
    later = await round_.crawls_of_partitions("later")
    await round_.feed_front_page()
    await feed_all(early)
    await have_entered(early)
    await first_pages(round_)
    inject = partial(lose_end_of_log, meanwhile=feed_later)
    await round_.strike(replace(FAULTS["truncate-log"], inject=inject), round_.context)
    await have_entered([fed for _, fed in later])
