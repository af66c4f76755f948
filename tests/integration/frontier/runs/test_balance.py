"""The ledgers are added up continuously: nothing is left over, and a bug would be found."""

from __future__ import annotations

import pytest

from crawlstream.model.crawl import CrawlKey
from crawlstream_frontier import maintenance
from support.frontier.bench import CRAWL, GRACE_MS, Bench, links

pytest_plugins = ["support.frontier.fixtures"]


async def test_a_sound_ledger_leaves_nothing_over(bench: Bench) -> None:
    """Balances the ledger at every step: fed, leased, with links, requeued, stopped, ended."""

    async def is_sound() -> None:
        assert (await bench.frontier.maintenance.balance()).found == {}
        assert (await bench.frontier.queries.state()).residual == 0

    await bench.feed.seeds("a/1", "b/1", "c/1")
    await is_sound()
    first, second, third = await bench.worker.lease(3)
    await is_sound()
    await bench.worker.settle(first, links=[links("d", range(50))])
    await bench.worker.requeue(second, delay_ms=1_000)
    await is_sound()
    await bench.feed.put(bench.feed.command("stop"))
    await is_sound()
    await bench.worker.settle(third)
    await bench.advance(GRACE_MS)
    await bench.tend()
    await is_sound()


async def test_a_page_that_is_missing_is_found(bench: Bench) -> None:
    """A counter that is off is reported by crawl and in the sum that status shows, while it is."""
    await bench.feed.seeds("a/1", "a/2")
    other = CrawlKey("link", "app", "other: crawl")
    await bench.feed.put(bench.feed.seed("a/3", crawl=other))
    await bench.redis.hincrby("{cs0}x:1", "done", 1)
    await bench.redis.hincrby("{cs0}x:2", "admitted", 3)
    assert (await bench.frontier.maintenance.balance()).found == {CRAWL: -1, other: 3}
    assert (await bench.frontier.queries.state()).residual == 4
    await bench.redis.hincrby("{cs0}x:1", "done", -1)
    await bench.redis.hincrby("{cs0}x:2", "admitted", -3)
    assert (await bench.frontier.maintenance.balance()).found == {}
    assert (await bench.frontier.queries.state()).residual == 0


async def test_a_hold_that_is_missing_is_found(bench: Bench) -> None:
    """Pages held by the ledgers are compared with the leases of workers."""
    await bench.feed.seeds("a/1", "b/1")
    key, token = f"{{cs0}}h:{bench.worker.name}", (await bench.worker.lease(2))[0].token
    lease = await bench.redis.hget(key, token)
    assert lease is not None
    await bench.redis.hdel(key, token)
    assert (await bench.frontier.maintenance.balance()).found == {None: 1}
    await bench.redis.hset(key, token, lease)
    assert (await bench.frontier.maintenance.balance()).found == {}


async def test_the_longest_wait_is_told(bench: Bench) -> None:
    """That of the crawl in whose queue nothing moved for longest; paused ones rest."""
    assert (await bench.frontier.maintenance.balance()).longest_wait_ms == 0
    await bench.feed.seeds("a/1")
    other = CrawlKey("link", "app", "other")
    await bench.feed.put(bench.feed.seed("b/1", crawl=other))
    for crawl in (1, 2):
        await bench.redis.hincrby(f"{{cs0}}x:{crawl}", "active", -crawl * 60_000)
    assert 120_000 <= (await bench.frontier.maintenance.balance()).longest_wait_ms < 180_000
    await bench.redis.hset("{cs0}x:2", "paused", 1)
    assert 60_000 <= (await bench.frontier.maintenance.balance()).longest_wait_ms < 120_000


async def test_many_crawls_are_added_up_in_parts(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round over more crawls than a call or a part looks at finds each of them once."""
    monkeypatch.setattr(maintenance, "BALANCES_A_PART", 1)
    crawls = [CrawlKey("link", "app", f"crawl{number}") for number in range(600)]
    await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl) for crawl in crawls[:200]))
    await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl) for crawl in crawls[200:400]))
    await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl) for crawl in crawls[400:]))
    for number in range(1, len(crawls) + 1):
        await bench.redis.hincrby(f"{{cs0}}x:{number}", "failed", 1)
    parts = [await bench.frontier.maintenance.balance()]
    assert (await bench.frontier.queries.state()).residual == 0
    while not parts[-1].is_whole:
        parts.append(await bench.frontier.maintenance.balance(parts[-1]))
    assert len(parts) > 1
    assert parts[-1].found == dict.fromkeys(crawls, -1)
    assert (await bench.frontier.queries.state()).residual == len(crawls)
    for number in range(1, len(crawls) + 1):
        await bench.redis.hdel(f"{{cs0}}x:{number}", "failed")
    parts = [await bench.frontier.maintenance.balance()]
    while not parts[-1].is_whole:
        parts.append(await bench.frontier.maintenance.balance(parts[-1]))
    assert parts[-1].found == {}
