"""The largest calls that there are, and crawls with very many bands: no script is too large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Outcome, Settle
from crawlstream_frontier.codec.links import GROUPS_PER_CALL, LINKS_PER_CALL
from crawlstream_frontier.intake import RECORDS_PER_CALL
from crawlstream_frontier.worker.session import LEASES_PER_CALL
from support.frontier.audit import audit
from support.frontier.bench import Bench, links, url_of

pytest_plugins = ["support.frontier.fixtures"]

MOST_BANDS = 64
TOKENS_PER_CALL = 1_000
MOST_COMMANDS = 4_000
"""Limit of one script: a microsecond each."""


@pytest.fixture
async def parent(bench: Bench) -> Lease:
    """The held seed of a crawl."""
    await bench.feed.seeds("a/seed")
    (lease,) = await bench.worker.lease()
    return lease


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many commands each script ran, from now on."""
    seen: list[int] = []
    run = Redis.evalsha

    async def total(redis: Redis) -> int:
        stats: dict[str, dict[str, int]] = await redis.info("commandstats")
        return sum(of["calls"] for of in stats.values())

    async def counted(self: Redis, *args: Any) -> Any:
        before = await total(self)
        answer = await run(self, *args)
        seen.append(await total(self) - before)
        return answer

    monkeypatch.setattr(Redis, "evalsha", counted)
    return seen


async def put(bench: Bench, parent: Lease, groups: Sequence[Links]) -> None:
    """Let all of them enter."""
    await bench.worker.session.put_links(parent.token, groups)


async def bands_of(redis: Redis, domain: str) -> list[bytes]:
    """The bands of a domain, as its record says."""
    record: Any = await redis.hget("{cs0}k:1", domain)
    return list(record.split(b",")[1:])


async def test_a_domain_has_so_many_bands_and_no_more(bench: Bench, parent: Lease) -> None:
    """Entries with yet another priority wait with the next lower one, or with the lowest."""
    await put(bench, parent, [links("a", [f"p{p}"], priority=p) for p in range(0, 640, 10)])
    assert len(await bands_of(bench.redis, "a")) == MOST_BANDS
    late = {"above": 635, "lowest": -7, "between": 105}
    await put(bench, parent, [links("a", [path], priority=p) for path, p in late.items()])
    await put(bench, parent, [links("a", ["other"], priority=7, spiderid="other")])
    await put(bench, parent, [links("a", ["again"], priority=9, spiderid="other")])
    assert len(await bands_of(bench.redis, "a")) == MOST_BANDS + 1
    order = [url.removeprefix("a/") for url in await bench.worker.crawl_all()]
    assert order == [
        *("p630", "above"),
        *(f"p{p}" for p in range(620, 100, -10)),
        *("p100", "between"),
        *(f"p{p}" for p in range(90, 0, -10)),
        *("p0", "lowest"),
    ]
    assert await bench.another_worker("w2", "other").urls() == ["a/other", "a/again"]


async def test_a_retry_has_a_band_there_too(bench: Bench, parent: Lease) -> None:
    """Queues a retry also where its priority would be one more than a domain may have."""
    await put(bench, parent, [links("a", [p], priority=p) for p in range(0, 63 * 7, 7)])
    (best,) = await bench.worker.lease()
    assert url_of(best) == "a/434"
    await bench.worker.requeue(best)
    assert len(await bands_of(bench.redis, "a")) == MOST_BANDS
    assert await bench.worker.crawl_all() == [
        f"a/{p}" for p in (427, 420, 434, *range(413, -1, -7))
    ]


@pytest.mark.parametrize(("domains", "bands"), [(1, 9_000), (25, 400), (300, 12)])
async def test_a_crawl_of_many_priorities_is_moved_and_swept(
    bench: Bench, parent: Lease, commands: list[int], domains: int, bands: int
) -> None:
    """Moves and sweeps a crawl of many priorities in small steps; so one that waits in vain."""
    groups = [
        links(f"d{d}", [f"p/{p}"], priority=p - bands // 2)
        for d in range(domains)
        for p in range(bands)
    ]
    await put(bench, parent, groups)
    assert (await bench.state()).queued == domains * bands
    commands.clear()
    await bench.feed.say("reprioritize", priority=900)
    await bench.tend()
    assert sum(commands) > min(bands, MOST_BANDS) * domains
    await bench.state()
    await bench.feed.say("pause")
    await bench.feed.say("resume")
    await bench.tend()
    await bench.feed.say("stop")
    await bench.worker.settle(parent)
    await bench.tend()
    assert not await bench.redis.keys("{cs0}[bekqsy]:*")
    assert max(commands) < MOST_COMMANDS


async def test_what_waits_in_vain_is_given_up_in_small_steps(
    bench: Bench, parent: Lease, commands: list[int]
) -> None:
    """Each page fails with a reason, though a step takes only its share of them, or of bands."""
    bench.limit(max_wait_ms=60_000)
    groups = [links(f"d{d}", [p], priority=p) for d in range(40) for p in range(60)]
    await put(bench, parent, groups)
    await bench.worker.settle(parent)
    await bench.worker.session.retire()
    commands.clear()
    for _ in range(60):
        await bench.advance(10_000)
        await bench.tend()
    state = await bench.state()
    assert (state.state, state.failed) == ("finished", 2_400)
    assert max(commands) < MOST_COMMANDS


async def test_a_record_with_more_bands_than_there_are_is_swept(
    bench: Bench, parent: Lease, commands: list[int]
) -> None:
    """Any version may have written it: bands go in steps, and dedupe sets behind them."""
    bands = "".join(f",{p}" for p in range(9_000))
    await bench.redis.hset("{cs0}k:1", "huge", f"9000 0 0 {bands}")
    await bench.worker.settle(parent)
    commands.clear()
    await bench.feed.say("stop")
    await bench.tend()
    assert not await bench.redis.keys("{cs0}[bekqsy]:*")
    assert len(commands) > 9_000 / 200
    assert max(commands) < MOST_COMMANDS


async def test_links_into_new_domains_come_in_small_calls(
    bench: Bench, parent: Lease, commands: list[int]
) -> None:
    """A new domain takes as long as ten links: a call is cut by that, ahead of the settle."""
    groups = [links(f"d{d}", [1]) for d in range(1_000)]
    commands.clear()
    await bench.worker.settle(parent, links=groups)
    assert len(commands) == 1_000 / GROUPS_PER_CALL + 1
    assert max(commands) < MOST_COMMANDS
    assert (await bench.state()).queued == 1_000


async def test_links_into_domains_that_were_put_before_come_with_the_settle(
    bench: Bench, parent: Lease, commands: list[int]
) -> None:
    """Settles the next page with links into known domains in one call."""
    domains = [f"d{d}" for d in range(2 * GROUPS_PER_CALL)]
    await put(bench, parent, [links(domain, [1]) for domain in domains])
    commands.clear()
    await bench.worker.settle(parent, links=[links(domain, [2]) for domain in domains])
    assert len(commands) == 1
    assert (await bench.state()).queued == 2 * len(domains)


async def test_pages_of_one_call_share_its_domains(bench: Bench, commands: list[int]) -> None:
    """Links beyond them are put ahead."""
    await bench.feed.seeds("a/1", "a/2", "a/3")
    pages = await bench.worker.lease(3)
    settles = [
        Settle(
            token=page.token,
            outcome=Outcome.DONE,
            links=[links(f"d{at}-{d}", [1]) for d in range(100)],
        )
        for at, page in enumerate(pages)
    ]
    commands.clear()
    await bench.worker.exchange(settles=settles)
    assert len(commands) == 2
    assert (await bench.state()).queued == 300


async def test_a_domain_that_several_pages_of_a_call_bring_is_dear_once(
    bench: Bench, commands: list[int]
) -> None:
    """Pages of a worker that knows nothing yet, with the same domains, come in one call."""
    await bench.feed.seeds("a/1", "a/2", "a/3")
    settles = [
        Settle(
            token=page.token,
            outcome=Outcome.DONE,
            links=[links(f"d{d}", [at]) for d in range(200)],
        )
        for at, page in enumerate(await bench.worker.lease(3))
    ]
    commands.clear()
    await bench.worker.exchange(settles=settles)
    assert len(commands) == 1
    assert max(commands) < MOST_COMMANDS
    assert (await bench.state()).queued == 600


async def test_what_is_put_ahead_into_known_domains_comes_in_large_calls(
    bench: Bench, parent: Lease, commands: list[int]
) -> None:
    """A page with more links than a call takes: a thousand in each, if no domain of them is new."""
    domains = [f"d{d}" for d in range(2 * GROUPS_PER_CALL)]
    await put(bench, parent, [links(domain, [1]) for domain in domains])
    commands.clear()
    groups = [links(domain, [path]) for path in (2, 3, 4, 5) for domain in domains]
    await bench.worker.settle(parent, links=groups)
    assert len(commands) == len(groups) / LINKS_PER_CALL + 1
    assert max(commands) < MOST_COMMANDS
    assert (await bench.state()).queued == 5 * len(domains)


async def test_the_largest_calls_are_taken(bench: Bench, parent: Lease) -> None:
    """A thousand links of one domain or of many, two hundred seeds and leases, a thousand ends."""
    seeds = [bench.feed.seed(f"s{i}/1") for i in range(RECORDS_PER_CALL)]
    await bench.feed.put(*seeds)
    await put(bench, parent, [links("one", range(LINKS_PER_CALL))])
    await put(bench, parent, [links(f"d{i}", [1, 2, 3, 4]) for i in range(GROUPS_PER_CALL)])
    held: list[Lease] = []
    while len(held) < TOKENS_PER_CALL:
        held += await bench.worker.lease(LEASES_PER_CALL)
    await bench.worker.release(*held[:TOKENS_PER_CALL])
    again: list[Lease] = []
    while len(again) < TOKENS_PER_CALL:
        again += await bench.worker.lease(LEASES_PER_CALL)
    assert await bench.blame("w1", "") == len(again) + 1
    last: list[Lease] = []
    while len(last) < TOKENS_PER_CALL:
        last += await bench.worker.lease(LEASES_PER_CALL)
    await bench.worker.settle(*last[:TOKENS_PER_CALL])
    assert (await bench.state()).done == TOKENS_PER_CALL
    await audit(bench.redis)
