"""However much a crawl has waiting, no script does more than its share; counted, not timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import CrawlKey
from crawlstream_frontier import maintenance, queries
from support.frontier.bench import GRACE_MS, Bench, links

pytest_plugins = ["support.frontier.fixtures"]

DOMAINS, PAGES = 900, 2_000
"""Domains with two pages each; pages of one domain, whose fingerprints fill several sets."""
BANDS = 2
"""Number for each domain."""
DAY_MS = 86_400_000
A_SCAN = 100
"""Domains that a script takes in one gulp: it asks for 50, but buckets of a hash come whole."""
A_STEP = 100
MOST = A_STEP + A_SCAN * (1 + BANDS)
"""Keys and domains that may go in one step."""


@dataclass(frozen=True, slots=True)
class Script:
    """Commands of one script in Redis."""

    commands: int
    lengths: int
    """Bands whose length it read."""
    removed: int
    """Keys and domains of the crawl that were there before and are not now."""


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> Sequence[Script]:
    """Every script that runs from now on, as Redis itself counts."""
    seen: list[Script] = []
    run = Redis.evalsha

    async def counts(redis: Redis) -> tuple[int, int, int]:
        stats: dict[str, dict[str, int]] = await redis.info("commandstats")
        calls = {name.removeprefix("cmdstat_"): of["calls"] for name, of in stats.items()}
        domains = int(await redis.hlen("{cs0}k:1"))
        return sum(calls.values()), calls.get("llen", 0), await redis.dbsize() + domains

    async def counted(self: Redis, *args: Any) -> Any:
        before = await counts(self)
        answer = await run(self, *args)
        after = await counts(self)
        seen.append(Script(after[0] - before[0], after[1] - before[1], before[2] - after[2]))
        return answer

    monkeypatch.setattr(Redis, "evalsha", counted)
    return seen


async def fill(bench: Bench) -> None:
    """A crawl with many domains, and one with many pages; no worker is active on it."""
    await bench.feed.seeds("seed/1")
    (lease,) = await bench.worker.lease()
    names = [f"d{number:05}.example" for number in range(DOMAINS)]
    shallow = [links(name, [at], priority=at) for name in names for at in (40, 60)]
    deep = [links("deep", range(at, at + 1_000)) for at in range(0, PAGES, 1_000)]
    await bench.worker.settle(lease, links=[*shallow, *deep])


async def test_a_crawl_that_expires_goes_in_small_steps(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The expiry itself touches no page; each step removes a bounded number of keys and domains."""
    monkeypatch.setattr(maintenance, "SWEPT_PER_CALL", A_STEP)
    await fill(bench)
    scripts.clear()
    await bench.feed.seeds("seed/2", expires=1)
    await bench.frontier.queries.state()
    assert sum(script.removed for script in scripts) <= 0
    await bench.tend()
    assert (await bench.state()).expired == BANDS * DOMAINS + PAGES + 1
    assert sum(script.removed for script in scripts) > (1 + BANDS) * DOMAINS
    assert max(script.removed for script in scripts) <= 2 * A_STEP
    assert max(script.commands for script in scripts) <= 5 * MOST
    assert not await bench.redis.keys("{cs0}[bekqsy]:*")


async def test_the_dedupe_of_one_huge_domain_goes_in_small_steps(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A domain with more dedupe sets than one step removes is taken away in several."""
    monkeypatch.setattr(maintenance, "SWEPT_PER_CALL", A_STEP)
    await bench.feed.seeds("a/1", "a/2")
    await bench.worker.lease()
    sets = 10 * A_STEP
    await bench.redis.hset("{cs0}k:1", "a", f"2 0 {sets * 209} ,50")
    for number in range(sets):
        await bench.redis.sadd(f"{{cs0}}e:1:a:{number}", number)
    await bench.redis.delete("{cs0}s:1:1")
    await bench.feed.put(bench.feed.command("stop"))
    scripts.clear()
    await bench.tend()
    assert max(script.removed for script in scripts) <= A_STEP
    assert not await bench.redis.keys("{cs0}e:*")


async def test_the_dedupe_of_very_many_small_domains_goes_in_small_steps(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sets that small domains share are taken away in bounded steps, too."""
    monkeypatch.setattr(maintenance, "SWEPT_PER_CALL", A_STEP)
    await bench.feed.seeds("a/1")
    slabs = 10 * A_STEP + 1
    await bench.redis.hset("{cs0}x:1", "slab", slabs)
    for slab in range(2, slabs + 1):
        await bench.redis.sadd(f"{{cs0}}s:1:{slab}", slab)
    await bench.feed.say("stop")
    scripts.clear()
    await bench.tend()
    assert max(script.removed for script in scripts) == A_STEP
    assert not await bench.redis.keys("{cs0}s:*")


async def test_more_runs_than_one_step_ends_are_over_in_several(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that has ended all it may says that more is due now."""
    monkeypatch.setattr(maintenance, "ENDINGS_PER_CALL", 10)
    crawls = [CrawlKey("link", "app", f"crawl{number}") for number in range(45)]
    await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl) for crawl in crawls))
    await bench.worker.crawl_all()
    await bench.advance(GRACE_MS)
    steps = await bench.tend()
    assert [step.ended for step in steps] == [10, 10, 10, 10, 5]
    assert [step.more for step in steps] == [True] * 4 + [False]


async def test_all_runs_are_looked_at_in_small_steps_once_a_round(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Idle crawls are looked at, too: a bounded number a script, and none before the next round."""
    monkeypatch.setattr(maintenance, "RUNS_PER_CALL", 5)
    long_enough_for_a_table = "crawl" * 20
    crawls = [CrawlKey("link", "app", f"{long_enough_for_a_table}{n}") for n in range(60)]
    await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl) for crawl in crawls))
    steps = 0
    while (await bench.frontier.maintenance.tend()).more:
        steps += 1
        assert steps < len(crawls), "it never comes to an end"
    assert steps > 5
    assert await bench.redis.hlen("{cs0}stalled") == len(crawls)
    for max_wait_ms in (DAY_MS, 0):
        bench.limit(max_wait_ms=max_wait_ms)
        await bench.advance(DAY_MS // 20)
        await bench.tend()
        await bench.advance(60_000)
        scripts.clear()
        await bench.tend()
        assert len(scripts) == 1, "the look at what is due"


async def test_a_crawl_is_moved_in_small_steps(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step ranks another priority in a bounded number of bands, the command itself in none."""
    monkeypatch.setattr(maintenance, "DOMAINS_PER_LOOK", A_STEP)
    await fill(bench)
    scripts.clear()
    await bench.feed.put(bench.feed.command("reprioritize", priority=90))
    await bench.tend()
    assert sum(script.commands for script in scripts) > 2 * BANDS * DOMAINS
    assert max(script.commands for script in scripts) <= 7 * MOST


async def test_a_list_reads_so_many_lengths_a_call(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reads a bounded number of lengths per call, whatever the number of domains and queues."""
    monkeypatch.setattr(queries, "QUEUES_PER_CALL", A_STEP)
    await fill(bench)
    scripts.clear()
    assert len((await bench.state()).domains) == DOMAINS + 1
    assert sum(script.lengths for script in scripts) >= BANDS * DOMAINS
    assert max(script.lengths for script in scripts) <= A_STEP + A_SCAN * BANDS


async def test_many_crawls_are_listed_in_a_few_calls(
    bench: Bench, scripts: list[Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call reads a bounded number of ledgers, and domains only of crawls with queued pages."""
    monkeypatch.setattr(queries, "LEDGERS_PER_CALL", 20)
    crawls = [CrawlKey("link", "app", f"crawl{number}") for number in range(50)]
    await bench.feed.put(*(bench.feed.seed("a/1", crawl=crawl) for crawl in crawls))
    await bench.worker.crawl_all()
    await bench.feed.put(bench.feed.seed("b/1", crawl=crawls[7]))
    scripts.clear()
    assert {state.crawl for state in await bench.frontier.queries.crawls()} == set(crawls)
    assert [script.commands <= 20 + 10 for script in scripts] == [True] * 3
    scripts.clear()
    states = await bench.frontier.queries.crawls(with_domains=True)
    assert {state.crawl: len(state.domains) for state in states} == {
        crawl: int(crawl == crawls[7]) for crawl in crawls
    }
    assert len(scripts) == 3 + 1
