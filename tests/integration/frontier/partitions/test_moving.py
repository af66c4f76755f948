"""A frontier is moved into other numbers of partitions, with all that is in it."""

from __future__ import annotations

import time

import pytest
from redis.asyncio import Redis

from crawlstream.errors import FrontierMoved, NoFrontier
from crawlstream.model.crawl import Budgets, CrawlKey
from crawlstream.model.effects import FOUND, Outcome
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_frontier.layout import create_frontier
from crawlstream_frontier.link_rules.host_budgets import is_lower
from crawlstream_frontier.moving import filling
from crawlstream_frontier.moving.withdrawal import State, Withdrawal
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.streams import Streams
from crawlstream_frontier.waste.persons import PersonVerdict, PersonWord
from support.frontier.bench import (
    CRAWL,
    Bench,
    Feed,
    Worker,
    endings,
    links,
    open_bench,
    position_of,
    standing_to,
)
from support.partitions.moving import (
    delayed_in,
    frontiers_in,
    ledgers_in,
    move,
    seen_in,
    waiting_in,
)

pytestmark = pytest.mark.usefixtures("still", "at_once")
pytest_plugins = ("support.frontier.fixtures",)

LARGE, SMALL = "large.example", [f"small{n}.example" for n in range(70)]
PAUSED, STOPPED, ENDED, RAISED = (
    CrawlKey("link", "app", name) for name in ("paused", "stopped", "ended", "raised")
)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Acknowledged writes are taken to be on Redis' disk."""
    monkeypatch.setattr(filling, "DURABLE_S", 0)


@pytest.fixture
async def bench(redis: Redis) -> Bench:
    """A frontier with something of everything, and nothing in progress."""
    bench = await open_bench(redis)
    bench.shelve(64)
    await bench.frontier.stocking.step()
    await bench.feed.seeds(f"{LARGE}/", f"{LARGE}/2", domain_max_pages=5_000, attrs={"of": 1})
    for lease, first in zip(await bench.worker.lease(2), (0, 900), strict=True):
        await bench.worker.settle(lease, links=[links(LARGE, range(first, first + 900))])
    await bench.feed.seeds(*(f"{domain}/{n}" for domain in SMALL for n in range(3)))
    for crawl in (PAUSED, STOPPED, RAISED):
        await bench.feed.seeds(f"{LARGE}/own", SMALL[0] + "/own", crawl=crawl, attrs={"of": 2})
    await bench.feed.seeds("later.example/", crawl=RAISED, not_before=time.time() + 3_600)
    await bench.feed.say("pause", PAUSED)
    await bench.feed.say("stop", STOPPED)
    await bench.feed.say("reprioritize", RAISED, priority=90)
    for number in range(6):
        (lease,) = await bench.worker.lease()
        outcome = Outcome.DONE if number < 4 else Outcome.FAILED
        await bench.worker.settle(lease, outcome=outcome)
    (lease,) = await bench.worker.lease()
    await bench.worker.requeue(lease, delay_ms=5_000)
    while not (await bench.frontier.stocking.step()).is_idle:
        pass
    await at_rest(bench)
    return bench


async def at_rest(bench: Bench) -> None:
    """Run the monitors' work until nothing is in progress."""
    await bench.tend()
    await bench.tend()
    await bench.owed()
    await bench.redis.delete(bench.frontier.scripts.keys.actions())


@pytest.mark.usefixtures("bench")
async def test_all_is_there_in_any_number_of_partitions(redis: Redis) -> None:
    """Entries in their order, what is delayed, what was seen, sums of the ledgers, the owner.

    Verdicts of persons, too.
    """
    old = frontiers_in(redis, 1, "cs")
    waiting, delayed = await waiting_in(old), await delayed_in(old)
    seen = {name: own for name, own in (await seen_in(old)).items() if own}
    ledgers = await ledgers_in(old)
    await redis.hset(old.root.scripts.keys.meta(), mapping={"prefix": "demo", "node": "/rules"})
    verdict = PersonVerdict("a.example", "?sort", 7, PersonWord.REFUSE, "anna")
    await old.root.person_verdicts.put(verdict)
    assert sum(map(len, waiting.values())) > 1_900
    assert delayed
    for partitions, name in ((3, "a"), (4, "b"), (1, "c")):
        new = frontiers_in(redis, partitions, name)
        assert (await move(old, new)).lost == 0
        assert await waiting_in(new) == waiting
        assert await delayed_in(new) == delayed
        assert {name: own for name, own in (await seen_in(new)).items() if own} == seen
        assert await ledgers_in(new) == ledgers
        (told,) = await new.root.person_verdicts.all()
        assert told._replace(at=0) == verdict
        whose = await new.query(
            lambda its: its.scripts.redis.hmget(its.scripts.keys.meta(), ["prefix", "node"])
        )
        assert whose.values == [[b"demo", b"/rules"]] * partitions
        old = new
    state = await old.queries.crawl_state(PAUSED)
    assert state is not None
    assert state.state == "paused"


@pytest.mark.usefixtures("bench")
async def test_what_was_moved_is_crawled(redis: Redis) -> None:
    """Crawls moved pages in order and rank; known ones do not enter, and runs go on in number."""
    old, new = frontiers_in(redis, 1, "cs"), frontiers_in(redis, 3, "a")
    await move(old, new)
    last = frontiers_in(redis, 1, "b")
    await move(new, last)
    other = await bench_of(last)
    first, *more = await other.worker.lease(20)
    assert first.crawl == RAISED
    known = await seen_in(last)
    own = next(lease for lease in more if lease.crawl == CRAWL)
    await other.worker.settle(own, links=[links(LARGE, range(900), priority=1)])
    await other.worker.settle(*(lease for lease in (first, *more) if lease != own))
    assert await seen_in(last) == known
    crawled = await other.worker.crawl_all()
    assert len(crawled) == len(set(crawled)) > 1_800
    fed = await other.feed.put(other.feed.seed("x.example/", crawl=STOPPED))
    assert fed.runs == {other.feed.next - 1: 2}


async def test_a_run_takes_its_budgets_along(redis: Redis) -> None:
    """Moves the budgets of a run and their use into any number of partitions."""
    bench = await open_bench(redis)
    await bench.feed.seeds(*(f"{name}/" for name in SMALL[:4]), budgets=Budgets(max_bytes=1_000))
    await redis.hset("{cs0}x:1", "recovered", "3")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, body_bytes=600)
    await at_rest(bench)
    old = frontiers_in(redis, 1, "cs")
    for partitions, name in ((1, "a"), (3, "b"), (1, "c")):
        new = frontiers_in(redis, partitions, name)
        await move(old, new)
        if name == "a":
            (lease,) = await (await bench_of(new)).worker.lease()
            assert lease.recovered
            await new.root.session("w1", CRAWL.spiderid).retire()
        old = new
    last = await bench_of(old)
    assert (await last.state()).spending == {"max_bytes": {"budget": 1_000, "spent": 600}}
    (lease,) = await last.worker.lease()
    await last.worker.settle(lease, body_bytes=400)
    assert not await last.worker.lease()
    await last.tend()
    await last.tend()
    assert [one.budget for one in await endings(last)] == ["max_bytes"]


async def test_domains_take_along_what_they_have_used(redis: Redis) -> None:
    """Moves the used budgets of domains into any number of partitions; spent ones stay spent."""
    bench = await open_bench(redis)
    urls = [f"{name}/{n}" for name in SMALL[:3] for n in range(2)]
    await bench.feed.seeds(*urls, domain_max_bytes=1_000)
    for lease in await bench.worker.lease(6):
        if lease.entry.url.endswith("0"):
            size = 1_000 if lease.domain == SMALL[0] else 600
            await bench.worker.settle(lease, body_bytes=size)
        else:
            await bench.worker.release(lease)
    await at_rest(bench)
    old = frontiers_in(redis, 1, "cs")
    for partitions, name in ((1, "a"), (3, "b"), (1, "c")):
        new = frontiers_in(redis, partitions, name)
        await move(old, new)
        old = new
    last = await bench_of(old)
    leases = {lease.domain: lease for lease in await last.worker.lease(6)}
    spent = {domain: lease.spent_budget for domain, lease in leases.items()}
    assert spent == {SMALL[0]: "domain_max_bytes", SMALL[1]: "", SMALL[2]: ""}
    await last.feed.seeds(f"{SMALL[1]}/3")
    await last.worker.settle(leases[SMALL[1]], body_bytes=400)
    assert (await last.state()).spent_domains == {"domain_max_bytes": 2}
    (lease,) = await last.worker.lease(6)
    assert lease.spent_budget == "domain_max_bytes"


async def test_a_frozen_frontier_does_nothing(bench: Bench, redis: Redis) -> None:
    """No process leases, feeds or founds anything, until the frontier is released."""
    withdrawal = Withdrawal(frontiers_in(redis, 1, "cs"))
    await withdrawal.begin("3 partitions")
    await bench.rule()
    assert not await bench.worker.lease()
    assert (await withdrawal.freeze())[0] is State.FROZEN
    with pytest.raises(NoFrontier):
        await bench.worker.lease()
    with pytest.raises(FrontierMoved, match="3 partitions"):
        await create_frontier(bench.frontier.scripts)
    await withdrawal.back()
    await bench.rule()
    assert await bench.worker.lease()


async def test_nothing_is_frozen_while_something_is_under_way(bench: Bench, redis: Redis) -> None:
    """It is said what."""
    await bench.worker.lease(2)
    withdrawal = Withdrawal(frontiers_in(redis, 1, "cs"))
    assert await withdrawal.begin("elsewhere") == {"held": 2}
    assert await withdrawal.freeze() == (State.MOVING, {"held": 2})


async def bench_of(frontiers: Frontiers) -> Bench:
    """A frontier of one partition that was moved has the same tools."""
    scripts = frontiers.root.scripts
    bench = Bench(
        scripts.redis,
        frontiers.root,
        Feed(frontiers.root, next=await position_of(frontiers.root, "topic", 0) or 0),
        Worker(frontiers.root.session("w1", CRAWL.spiderid)),
        Streams(scripts.redis, scripts.keys, "reader"),
    )
    bench.shelve(64)
    await bench.rule(ThrottleRule(hits=10**6, window_s=1, moderated=False, concurrency=10**6))
    await bench.advance(5_000)
    return bench


async def test_standings_of_domains_are_moved(redis: Redis) -> None:
    """A domain with two trusted links stays trusted, and has no more room than before."""
    bench = await open_bench(redis)
    await bench.feed.seeds(*(f"{name}/" for name in SMALL[:2]), host_budget=(1, 0))
    for lease in await bench.worker.lease(2):
        group = links(LARGE, [1, 2], standing=standing_to(lease, LARGE))
        await bench.worker.settle(lease, links=[group])
    await at_rest(bench)
    old, new = frontiers_in(redis, 1, "cs"), frontiers_in(redis, 1, "a")
    await move(old, new)
    moved = await bench_of(new)
    first, second = await moved.worker.lease(2)
    assert (first.is_trusted, second.is_trusted) == (True, True)
    assert (is_lower(first.priority), is_lower(second.priority)) == (False, True)
    await moved.worker.settle(first, links=[links(LARGE, [3], standing=standing_to(first, LARGE))])
    (third,) = await moved.worker.lease()
    assert is_lower(third.priority)


async def test_promoted_pages_are_moved_once(redis: Redis) -> None:
    """Pages that wait keep their places; entries of pages that were fetched are left out."""
    bench = await open_bench(redis)
    await bench.feed.seeds(*(f"s{n}/" for n in range(3)), score="inlinks", priority=100)
    paths = [*range(300)]
    for number, lease in enumerate(await bench.worker.lease(3)):
        bench.worker.session._children._link_cache.enter(-1)
        group = links("a", paths if number < 2 else [7, 250, 9], linked=FOUND)
        await bench.worker.settle(lease, links=[group])
    (page,) = await bench.worker.lease()
    await bench.worker.settle(page)
    await at_rest(bench)
    old, new = frontiers_in(redis, 1, "cs"), frontiers_in(redis, 1, "a")
    before = await waiting_in(old)
    assert sum(map(len, before.values())) == 299
    await move(old, new)
    assert await waiting_in(new) == before
    urls = await (await bench_of(new)).worker.crawl_all(500)
    rest = [n for n in paths if n not in {7, 9, 250}]
    assert urls == [f"a/{n}" for n in (250, 9, *rest)]
