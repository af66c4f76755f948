"""Each crawl is accounted for, with any action on it, while processes die.

The long form: LEDGER_CRAWLS=100 LEDGER_KILLS=25, about five minutes.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from crawlstream.keys import FrontierKeys
from crawlstream_chaos.cluster import SETTINGS
from crawlstream_chaos.witness import ENDINGS, Witness
from crawlstream_frontier.frontier import Frontier
from e2e.cluster import Cluster
from e2e.sites import Serve, ServedWeb
from support.waiting import wait_until

CRAWLS = int(os.environ.get("LEDGER_CRAWLS", "8"))
KILLS = int(os.environ.get("LEDGER_KILLS", "2"))
IS_LONG = CRAWLS >= 50
PAGES = (10, 60) if IS_LONG else (10, 16)
"""Smallest and largest crawl."""
SLOW_S = 3.0 if IS_LONG else 0.7
"""Between two requests to a site, while crawls are steered and workers killed."""
LATEST_S = int(PAGES[0] * SLOW_S) - 2
"""When crawls have expired at the latest: before they can be finished."""
FATES = ("left alone", "stopped", "paused and resumed", "expired")
ENDS = ("done", "failed", "redirected", "skipped", "stopped", "expired")
EVERY_S = 0.5

POLLED = partial(wait_until, timeout_s=240, every_s=EVERY_S)


@dataclass(slots=True)
class Crawl:
    """A crawl of a web of its own, and what shall happen to it."""

    served: ServedWeb
    fate: str
    name: dict[str, str]
    was_stopped: bool = False

    @property
    def crawlid(self) -> str:
        """Its name on the topics."""
        return self.name["crawlid"]


@asynccontextmanager
async def slowly(cluster: Cluster) -> AsyncIterator[None]:
    """Request every site slowly until the block ends, and quickly after it."""
    await cluster.throttle("set", "default", "--hits", "1", "--window", str(SLOW_S))
    try:
        yield
    finally:
        quick = ("--hits", SETTINGS["QUEUE_HITS"], "--window", SETTINGS["QUEUE_WINDOW"])
        await cluster.throttle("set", "default", *quick)


async def steer(crawl: Crawl, witness: Witness, random: Random) -> None:
    """Do to a crawl what is its fate; its time to end was fed with its seed."""
    if crawl.fate == "left alone":
        return
    if crawl.fate == "expired":
        await POLLED(lambda: witness.ending(crawl.crawlid))
        return
    after = random.randint(1, 3)
    await POLLED(
        lambda: witness.ending(crawl.crawlid) or len(witness.results(crawl.crawlid)) >= after
    )

    async def ask(action: str) -> dict[str, Any]:
        return await witness.answered(
            witness.feed_request(action=action, **crawl.name), timeout_s=120
        )

    if crawl.fate == "stopped":
        crawl.was_stopped = "error" not in await ask("stop")
        return
    await ask("pause")

    async def is_quiet() -> bool:
        return bool((await ask("info"))["in_flight"] == 0)

    await POLLED(is_quiet)
    await ask("resume")


async def kill_crawlers(cluster: Cluster, frontier: Frontier) -> tuple[int, int]:
    """Kill one again and again; how often pages were waiting, and how often some were held."""
    waiting, held = 0, 0
    for _ in range(KILLS):
        state, give_up_at = await frontier.queries.state(), time.monotonic() + 2
        while not state.held and time.monotonic() < give_up_at:
            state = await frontier.queries.state()
            await asyncio.sleep(0.005)
        waiting += state.queued + state.delayed + state.held > 0
        held += state.held > 0
        await cluster.kill("crawler", timeout_s=120)
        assert (await frontier.maintenance.balance()).found == {}
    return waiting, held


def check(crawl: Crawl, witness: Witness) -> str:
    """Check for one ending, whose counters agree with topics and the site's log; its kind."""
    events = witness.events(crawl.crawlid)
    (ending,) = [event for event in events if event["event"] in ENDINGS]
    # Run 1 only where no other crawl was forgotten before.
    (started,) = [event["run"] for event in events if event["event"] == "crawl_started"]
    assert started == ending["run"]
    counters, kind = ending["counters"], ending["event"].removeprefix("crawl_")
    results = witness.results(crawl.crawlid)
    assert {result["run"] for result in results} <= {started}
    failed = {event["id"] for event in events if event["event"] == "page_failed"}
    assert counters["admitted"] == sum(counters[end] for end in ENDS), counters
    assert counters["done"] == len({result["id"] for result in results}), counters
    assert counters["failed"] == len(failed), counters
    fetched = set(crawl.served.fetches())
    assert {result["url"] for result in results} <= fetched
    ended = counters["done"] + counters["redirected"]
    assert ended <= len(fetched) <= counters["admitted"], (counters, len(fetched))
    if kind == "finished":
        truth = crawl.served.truth(maxdepth=99)
        assert {result["url"]: result["status_code"] for result in results} == truth.delivered
        assert fetched == set(truth.fetches)
        assert (counters["redirected"], len(failed)) == (
            len(truth.redirected),
            len(truth.forbidden),
        )
    return str(kind)


async def feed(
    stack: AsyncExitStack, serve: Serve, witness: Witness, random: Random
) -> Sequence[Crawl]:
    """Crawls of mixed size and fate, each with a web of its own."""
    crawls = []
    for number in range(CRAWLS):
        fate = FATES[number % len(FATES)]
        # A crawl that is stopped or expires must not finish before.
        pages = PAGES[1] if fate in ("stopped", "expired") else random.randint(*PAGES)
        served = await stack.enter_async_context(serve(hosts=1, pages=pages, slow_pages=0))
        crawlid = f"ledger-{served.web.port}"
        name = {"appid": "ledger", "spiderid": "link", "crawlid": crawlid}
        crawls.append(Crawl(served, fate, name))
    for crawl in crawls:
        late = int(time.time()) + random.randint(3, LATEST_S)
        expires = {"expires": late} if crawl.fate == "expired" else {}
        witness.feed({**crawl.name, "url": crawl.served.web.seed_url, "maxdepth": 99, **expires})
    return crawls


async def test_every_crawl_is_accounted_for_while_crawlers_are_killed(
    serve: Serve, witness: Witness, cluster: Cluster
) -> None:
    """Left alone, stopped, paused or expired: one ending, which agrees with topics and site."""
    random = Random(CRAWLS)
    async with (
        AsyncExitStack() as stack,
        cluster.redis() as redis,
    ):
        frontier = Frontier(redis, FrontierKeys())
        async with slowly(cluster):
            crawls = await feed(stack, serve, witness, random)
            steering = asyncio.gather(*(steer(crawl, witness, random) for crawl in crawls))
            waiting, held = await kill_crawlers(cluster, frontier)
            await steering
        for crawl in crawls:
            await witness.ended(crawl.crawlid, timeout_s=240)
        assert (await frontier.maintenance.balance()).found == {}
        kinds = [check(crawl, witness) for crawl in crawls]
    for crawl, kind in zip(crawls, kinds, strict=True):
        assert (kind == "stopped") == crawl.was_stopped
        assert crawl.fate == "expired" or kind != "expired"
    assert {"stopped", "expired", "finished"} <= set(kinds)
    told = {kind: kinds.count(kind) for kind in sorted(set(kinds))}
    sys.stdout.write(
        f"{CRAWLS} crawls: {told}; {KILLS} kills, {waiting} with pages waiting,"
        f" {held} with some held\n"
    )
