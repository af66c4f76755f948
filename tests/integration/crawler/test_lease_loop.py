"""The lease loop and a frontier whose answers get lost: nothing is forgotten or done twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import pytest

from crawling.lease.expired import GrantExpired
from crawling.lease.leases import START_BY_S, Leases
from crawling.lease.pace import SLOWEST_S
from crawling.metrics import Meter
from crawling.page.page import Page, Phase
from crawling.runtime.lease_loop import LeaseLoop, Shared
from crawlstream.errors import RedisUnavailable
from crawlstream.model.effects import Outcome
from support.frontier.bench import Bench

pytest_plugins = ["support.frontier.fixtures"]


class Screen:
    """A robots.txt of every host that allows everything."""

    def screen(self, pages: Sequence[Page], allow: Any) -> None:
        """As ``Robots.screen``."""
        for page in pages:
            allow(page)


class Fed:
    """Leases and loop of a worker, whose calls are answered until a test says otherwise."""

    def __init__(self, bench: Bench) -> None:
        self.now = time.monotonic()
        self.answers_lost = 0
        self.answers_take_s = 0.0
        self.leases = Leases(4, lambda: None, lambda: self.now)
        self.ready: asyncio.Queue[Page] = asyncio.Queue()
        self.loop = LeaseLoop(
            bench.worker.session,
            self.leases,
            Screen(),  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            shared=Shared(
                ready=self.ready,
                meter=Meter("link", 4),
                may_lease=lambda: True,
                on_unconfirmed=None,
            ),
        )
        scripts: Any = bench.worker.session._scripts
        self._run = scripts.run
        scripts.run = self._run_or_not

    async def _run_or_not(self, *what: Any) -> object:
        answer: object = await self._run(*what)
        await asyncio.sleep(self.answers_take_s)
        if self.answers_lost:
            self.answers_lost -= 1
            raise RedisUnavailable("the answer is lost")
        return answer

    async def exchange(self) -> list[Page]:
        """Make one call; return the pages ready for Scrapy after it."""
        await self.loop._exchange()
        return [self.ready.get_nowait() for _ in range(self.ready.qsize())]


async def test_what_was_told_in_vain_is_told_again(bench: Bench) -> None:
    """A call is repeated, with its ends, until it is answered; nothing is done twice."""
    await bench.feed.seeds("a/1", "b/1")
    fed = Fed(bench)
    pages = await fed.exchange()
    for page in pages:
        fed.leases.settle(page, Outcome.DONE, "2xx")
    fed.answers_lost = 2
    for _ in range(3):
        assert fed.leases.of(0).alive()
        await fed.exchange()
    assert not fed.leases.of(0).alive()
    state = await bench.state()
    assert (state.done, state.held) == (2, 0)


async def test_a_grant_counts_from_the_first_try(bench: Bench) -> None:
    """Its answer was lost, so it is old when it comes, and too old if the tries took long."""
    await bench.feed.seeds("a/1")
    fed = Fed(bench)
    fed.answers_lost = 1
    assert await fed.exchange() == []
    begun = time.monotonic()
    await asyncio.sleep(0.05)
    (page,) = await fed.exchange()
    assert page.lease.issued_at < begun
    fed.now = begun + START_BY_S
    with pytest.raises(GrantExpired):
        fed.leases.set_out(page, page.lease.entry.url)


async def test_a_worker_that_drains_gives_back_what_it_is_granted_late(bench: Bench) -> None:
    """Pages requested before are leased when it is stopped."""
    await bench.feed.seeds("a/1")
    fed = Fed(bench)
    fed.answers_lost = 1
    await fed.exchange()
    fed.loop.drain()
    assert await fed.exchange() == []
    await fed.exchange()
    state = await bench.state()
    assert (state.queued, state.held) == (1, 0)


async def test_a_page_in_other_hands_is_dropped(bench: Bench) -> None:
    """Redis says so, and nothing of it is sent or told again."""
    await bench.feed.seeds("a/1")
    fed = Fed(bench)
    (page,) = await fed.exchange()
    await bench.blame("w1", "")
    fed.leases.set_out(page, page.lease.entry.url)
    fed.leases.depart(page)
    fed.leases.departed(page)
    await fed.exchange()
    assert page.phase is Phase.STALE
    assert page.token not in fed.leases.of(0).alive()


async def test_a_slow_redis_is_called_less_often(bench: Bench) -> None:
    """A worker with a report to send, and a download, leaves it more time between two calls."""
    await bench.feed.seeds("a/1", "b/1")
    fed = Fed(bench)
    done, under_way = await fed.exchange()
    fed.leases.set_out(under_way, under_way.lease.entry.url)
    fed.answers_take_s = 0.01
    for _ in range(8):
        await fed.exchange()
    fed.leases.settle(done, Outcome.DONE, "2xx")
    assert fed.loop._due_at() - fed.loop._left_at == pytest.approx(SLOWEST_S)
