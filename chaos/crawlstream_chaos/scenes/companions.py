"""Crawls during a script: small ones, firings of a schedule, a spider that retires.

A companion goes on until the script is over, and leaves the crawls that it has fed to the round,
which waits for each ending and judges.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from subprocess import TimeoutExpired
from typing import Any

from crawlstream.tasks import wait_until
from crawlstream_chaos.facts.facts import APP, FedCrawl, Firings, RoundFailed, has_ended
from crawlstream_chaos.faults import BACK_S, Fault, FaultContext, FaultEffect
from crawlstream_chaos.processes import LoggedCrawler
from crawlstream_chaos.rounds import Round
from crawlstream_chaos.scripts import is_admitted
from crawlstream_chaos.strikes.extra_processes import extra_crawler, is_up
from crawlstream_cli.demo.truth import FollowRules, Truth, expected_pages
from crawlstream_cli.demo.web import ContentKind, Web

Companion = Callable[[Round, asyncio.Event], Coroutine[Any, Any, None]]
"""Goes on until the script of its round is over."""
_FIRST = 90
"""The priority of small crawls: none waits for the whole web."""


async def play_beside(
    companions: Sequence[Companion], script: Callable[[Round], Awaitable[None]], round_: Round
) -> None:
    """Play a script, and companions at the same time.

    Companions are not cancelled: a crawl that may or may not have been fed could not be judged.
    """
    is_over = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        for companion in companions:
            group.create_task(companion(round_, is_over))
        try:
            await script(round_)
        finally:
            is_over.set()


_ENDED_S = 240


async def have_ended(round_: Round, crawls: Sequence[FedCrawl]) -> None:
    """Wait for the end of crawls; the auditor reports an ending that does not come."""
    records = round_.cluster.recorder.crawl
    with suppress(TimeoutError):
        await wait_until(
            lambda: all(has_ended(each, records(each.crawlid)) for each in crawls),
            timeout_s=_ENDED_S,
        )


# Small crawls.

_FED_BESIDE, _SEEDS_EACH = 25, 3
"""Maximum number of small crawls, over the seconds of a round; sampling queries each of them."""
_FEED_EVERY_S = 1.0


async def feed_beside(round_: Round, is_over: asyncio.Event) -> None:
    """Small crawls are fed all the while: who is away must not lose their seeds.

    Their pages lie anywhere, so each needs several partitions; where there is but one, none is fed.
    A reader that is struck between two seeds may leave each of them a run of its own.
    """
    if len(round_.cluster.frontier) == 1:
        return
    urls, random = round_.cluster.plain_urls(), Random(f"{round_.seed}/beside")
    pause_s = max(_FEED_EVERY_S, round_.seconds / _FED_BESIDE)
    for number in itertools.count():
        fed = round_.crawl_of(f"beside-{number}", random.sample(urls, _SEEDS_EACH))
        fed = replace(fed, runs=_SEEDS_EACH)
        await round_.feed(fed, *fed.delivered, maxdepth=0, priority=_FIRST)
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), pause_s)
            return


# Firings.

_NEVER = "0 0 29 2 *"
"""Cron expression that fires so rarely that only requests count."""
_TOLD_S = 120
"""Seconds within which the firing of a schedule, or why it did not fire, is reported."""
_BROUGHT_S = 300
"""Seconds within which the pages of a firing are delivered."""
_MOST_UNTOLD = 3
_PAUSE_S = 1.0


async def fire_beside(round_: Round, is_over: asyncio.Event) -> None:
    """A schedule of seeds that redirect fires each time that its last crawl is over."""
    schedule = _schedule_of(round_)
    await round_.feed(schedule.fed)
    await schedule.set_up()
    while not schedule.is_enough(is_over):
        await schedule.fire()
        with suppress(TimeoutError):
            await asyncio.wait_for(is_over.wait(), _PAUSE_S)
    await schedule.say("remove", timeout_s=BACK_S)


@dataclass(slots=True)
class _FiredSchedule:
    """A schedule that is fired by request, and the crawl that all its firings feed."""

    round_: Round
    fed: FedCrawl
    firings: Firings
    seeds: Sequence[str]

    def is_enough(self, is_over: asyncio.Event) -> bool:
        """Return whether it has fired, and the script is over; or it does not fire."""
        has_fired = self.firings.told > 0 and is_over.is_set()
        return has_fired or self.firings.untold >= _MOST_UNTOLD

    async def set_up(self) -> None:
        """Set it; again where no reply comes, which a Redis that goes back may have forgotten."""
        crawl = {"crawlid": self.fed.crawlid, "maxdepth": 0, "priority": _FIRST}
        definition: dict[str, Any] = {"cron": _NEVER, "crawl": crawl, "seeds": self.seeds}
        with suppress(TimeoutError):
            await self.say("set", **definition)
            return
        await self.say("set", timeout_s=BACK_S, **definition)

    async def say(self, do: str, *, timeout_s: float = _TOLD_S, **more: object) -> None:
        """Have something done to it, and wait for the reply; RoundFailed."""
        reply = await self.round_.cluster.recorder.answered(
            await self._ask(do, **more), timeout_s=timeout_s
        )
        if problem := reply.get("error") or reply.get("errors"):
            raise RoundFailed(f"{self.firings.schedule}: {do} was refused: {problem}")

    async def _ask(self, do: str, **more: object) -> str:
        name = {"appid": APP, "schedule": self.firings.schedule, "do": do}
        return await asyncio.to_thread(
            lambda: self.round_.cluster.recorder.feed_request(**name, **more)
        )

    async def fire(self) -> None:
        """Have it fire; wait for the report of the firing or of its failure, and for its pages."""
        before = self._told()
        await self._ask("fire")
        with suppress(TimeoutError):
            await wait_until(lambda: self._told() != before, timeout_s=_TOLD_S, every_s=0.2)
        is_untold = self._told() == before
        self._note(self._told()[0], self.firings.untold + is_untold)
        if is_untold:
            await self.set_up()
        with suppress(TimeoutError):
            await wait_until(self._has_brought_all, timeout_s=_BROUGHT_S, every_s=0.2)

    def _told(self) -> tuple[int, int]:
        """Return how often a firing, and a failure, was reported; repetitions have a key."""
        named = partial(
            self.round_.cluster.recorder.records, "events", schedule=self.firings.schedule
        )
        fired, skipped = (
            len({record.key for record in named(event=event)})
            for event in ("schedule_fired", "schedule_skipped")
        )
        return fired, skipped

    def _note(self, told: int, untold: int) -> None:
        """Have the round know what its crawl must have brought by now."""
        self.firings = replace(self.firings, told=told, untold=untold)
        known, before = self.round_.fed, self.fed
        self.fed = replace(before, firings=self.firings, runs=max(told, 1) * len(self.seeds))
        known[known.index(before)] = self.fed

    def _has_brought_all(self) -> bool:
        return has_ended(self.fed, self.round_.cluster.recorder.crawl(self.fed.crawlid))


def _schedule_of(round_: Round) -> _FiredSchedule:
    """A schedule of a seed of each kind, and what each of its firings must bring."""
    truths = moved_seeds(round_.cluster.web)
    name = f"{round_.name}-fired-{round_.cluster.web.port}"
    firings = Firings(schedule=name)
    fed = FedCrawl(
        crawlid=name,
        delivered={
            url: status for truth in truths.values() for url, status in truth.delivered.items()
        },
        redirected=sum(len(truth.redirected) for truth in truths.values()),
        runs=len(truths),
        firings=firings,
    )
    return _FiredSchedule(round_, fed, firings, list(truths))


def moved_seeds(web: Web) -> Mapping[str, Truth]:
    """A page that redirects to another host, one to where it is linked, a plain one, if there are.

    No two bring the same page.
    """
    found: dict[str, Truth] = {}
    for kind in (ContentKind.MOVED, ContentKind.MOVED_BACK, ContentKind.PAGE):
        taken = {url for truth in found.values() for url in truth.delivered}
        for page in web.pages:
            truth = expected_pages(web, FollowRules(), seed_url=web.url(page))
            if page.kind is kind and taken.isdisjoint(truth.delivered):
                found[web.url(page)] = truth
                break
    return found


# A spider that retires.

_RETIRING = "retiring"
_SPIDER = f"""
from crawling import ClusterSpider

class RetiringSpider(ClusterSpider):
    name = "{_RETIRING}"

    def parse(self, response):
        yield self.result(response)
"""
_RETIRED_SEEDS = 8
_WAITS_S = 30
"""Seconds for which its pages are delayed."""


async def retire_beside(round_: Round, _is_over: asyncio.Event) -> None:
    """Stop the only crawler of a spider permanently while all pages of a crawl wait for their time.

    These pages are never fetched: they fail with their URLs, and the crawl ends.
    """
    cluster, context = round_.cluster, round_.context
    urls = cluster.plain_urls()[:_RETIRED_SEEDS]
    fed = FedCrawl(
        crawlid=f"{round_.name}-{_RETIRING}-{cluster.web.port}",
        spiderid=_RETIRING,
        delivered={},
        failed=dict.fromkeys(urls, "no_worker"),
    )
    (cluster.home / f"{_RETIRING}.py").write_text(_SPIDER)
    path = os.pathsep.join(filter(None, (str(cluster.home), os.environ.get("PYTHONPATH"))))
    environment = {"PYTHONPATH": path, "CRAWLSTREAM_SPIDER_MODULES": _RETIRING}
    async with extra_crawler(context, _RETIRING, **environment) as crawler:
        await wait_until(lambda: is_up(crawler), timeout_s=BACK_S, every_s=0.2)
        due = int(time.time()) + _WAITS_S
        await round_.feed(fed, *urls, not_before=due, priority=_FIRST)
        # Seeds that are read later fail all the same.
        with suppress(TimeoutError):
            await wait_until(partial(is_admitted, round_, fed), timeout_s=_WAITS_S / 2, every_s=0.2)
        fault = Fault("retire-spider", "", partial(_retire, crawler))
        await round_.strike(fault, context)


async def _retire(crawler: LoggedCrawler, context: FaultContext) -> FaultEffect:
    """It holds no page."""
    how = context.random.choice([signal.SIGTERM, signal.SIGKILL])
    crawler.signal(how)
    with suppress(TimeoutExpired):
        await asyncio.to_thread(crawler.wait, _WAITS_S / 2)
    return FaultEffect(f"the only crawler of its spider, by {how.name}")
