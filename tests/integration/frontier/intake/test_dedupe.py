"""Dedupe: exact and compact while domains grow out of shared sets into sets of their own."""

from __future__ import annotations

from random import Random

from redis.asyncio import Redis

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Outcome, Requeue, Settle
from support.frontier.bench import Bench, links

pytest_plugins = ["support.frontier.fixtures"]

INTEGERS = "intset"
"""How Redis keeps a small set of integers: 8 bytes each."""


async def test_each_link_enters_once_however_large_a_domain_is(bench: Bench) -> None:
    """Singly or in groups: new pages entered, and the sets of fingerprints stay compact."""
    random = Random(5)
    await bench.feed.seeds("seed/1")
    (lease,) = await bench.worker.lease(1)
    pages = {"large": 1_500, "middle": 300, **{f"small{d}": 20 for d in range(40)}}
    todo = [(domain, page) for domain, count in pages.items() for page in range(count)] * 2
    random.shuffle(todo)
    while todo:
        size = random.choice([1, 1, 1, 7])
        of_domain: dict[str, list[int]] = {}
        for domain, page in todo[: 40 * size]:
            of_domain.setdefault(domain, []).append(page)
        del todo[: 40 * size]
        groups = [
            links(domain, found[start : start + size])
            for domain, found in of_domain.items()
            for start in range(0, len(found), size)
        ]
        await bench.worker.session.put_links(lease.token, groups)
    state = await bench.state()
    assert state.queued == sum(pages.values())
    assert state.filtered_by_reason == {"duplicate": sum(pages.values())}
    sets = [*await bench.redis.keys("*}s:*"), *await bench.redis.keys("*}e:*")]
    assert len(sets) > 10
    for key in sets:
        assert await bench.redis.object("encoding", key) == INTEGERS.encode(), key
    # Each is in one of them, and so is the seed.
    assert sum([await bench.redis.scard(key) for key in sets]) == sum(pages.values()) + 1
    await bench.worker.settle(lease)


async def sets(redis: Redis, kind: str) -> int:
    """How many sets of fingerprints there are: ``s`` shared ones, ``e`` a domain's own."""
    return len(await redis.keys(f"*}}{kind}:*"))


async def test_small_domains_share_their_sets(bench: Bench) -> None:
    """Thirty-two domains are in one set, whichever way their first page came."""
    await bench.feed.seeds("seed/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    one_by_one = [links(f"a{number}", [number]) for number in range(20)]
    in_groups = [links(f"b{number}", range(5)) for number in range(20)]
    for group in one_by_one + in_groups:
        await bench.worker.session.put_links(lease.token, [group])
    await bench.feed.seeds(*(f"c{number}/1" for number in range(20)))
    assert (await sets(bench.redis, "s"), await sets(bench.redis, "e")) == (2, 0)
    await bench.worker.settle(lease)


async def test_a_domain_has_as_many_sets_as_it_has_pages(bench: Bench) -> None:
    """Known pages take no more room when they come again; 209 pages or more share a set."""
    await bench.feed.seeds("seed/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    at_once, one_by_one = [links("a", range(1_000))], [links("b", [n]) for n in range(1_000)]
    for groups in (at_once, one_by_one):
        await bench.worker.session.put_links(lease.token, groups)
    for _ in range(250):
        await bench.feed.seeds("a/1", max_pages=10_000)
    own = [len(await bench.redis.keys(f"*}}e:*:{domain}:*")) for domain in "ab"]
    # The first 508 that come one by one are in a shared set.
    assert own == [-(-1_000 // 209), -(-492 // 209)]
    await bench.worker.settle(lease)


async def test_seeds_of_a_large_domain_are_known(bench: Bench) -> None:
    """Fed by the hundred into sets of its own, new ones and old: links to all are duplicates."""
    await bench.feed.seeds("seed/1", maxdepth=1)
    (lease,) = await bench.worker.lease()
    await bench.worker.session.put_links(lease.token, [links("a", range(600))])
    await bench.feed.seeds(*(f"a/{number}" for number in range(590, 650)))
    await bench.worker.settle(lease, links=[links("a", range(580, 660))])
    state = await bench.state()
    assert (state.admitted, state.filtered_by_reason) == (1 + 600 + 60 + 10, {"duplicate": 70})


def done(lease: Lease, *groups: Links) -> Settle:
    """The end of a page that led to these."""
    return Settle(token=lease.token, outcome=Outcome.DONE, reason="2xx", links=groups)


async def commands(redis: Redis, name: str) -> int:
    """How often it was called."""
    return int((await redis.info("commandstats"))[f"cmdstat_{name}"]["calls"])


async def test_pages_of_one_call_look_up_their_domains_together(bench: Bench) -> None:
    """Five pages that lead to new links of two domains take as many lookups as one page."""
    await bench.feed.seeds(*(f"seed/{n}" for n in range(7)))
    first, one, *five = await bench.worker.lease(7)
    costs = []
    for pages in ([first], [one], five):
        before = await commands(bench.redis, "hmget")
        await bench.worker.exchange(
            settles=[
                done(page, links("a", [f"{page.token}/1"]), links("b", [f"{page.token}/2"]))
                for page in pages
            ]
        )
        costs.append(await commands(bench.redis, "hmget") - before)
    assert costs[1] == costs[2]
    assert (await bench.state()).queued == 14


async def test_new_domains_of_one_call_make_their_spider_known_once(bench: Bench) -> None:
    """Each takes one set of fingerprints, and no more, however many there are."""
    await bench.feed.seeds("seed/1")
    (page,) = await bench.worker.lease()
    before = await commands(bench.redis, "sadd")
    await bench.worker.settle(page, links=[links(f"d{number}", [1]) for number in range(100)])
    assert await commands(bench.redis, "sadd") - before <= 100 + 1


async def test_a_link_that_two_pages_of_one_call_lead_to_enters_once(bench: Bench) -> None:
    """A page is found alone or among others, in any set."""
    await bench.feed.seeds("seed/1", "seed/2")
    first, second = await bench.worker.lease(2)
    await bench.worker.exchange(
        settles=[
            done(first, links("a", range(30)), links("new", [1])),
            done(second, links("a", range(20, 40)), links("new", [1])),
        ]
    )
    state = await bench.state()
    assert (state.queued, state.filtered_by_reason) == (41, {"duplicate": 11})


async def test_a_domain_that_is_fed_again_is_still_known(bench: Bench) -> None:
    """Whichever domains came in between: links to its earlier pages are duplicates."""
    await bench.feed.seeds("a/1", "a/2")
    await bench.feed.seeds(*(f"d{number}/1" for number in range(70)))
    await bench.feed.seeds("a/3", "a/4")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(lease, links=[links("a", range(1, 6))])
    state = await bench.state()
    assert (state.admitted, state.filtered_by_reason) == (75, {"duplicate": 4})


async def test_a_retry_and_new_links_of_its_domain_in_one_call_are_both_listed(
    bench: Bench,
) -> None:
    """The domain knows the band of either: both are counted, and swept after a stop."""
    await bench.feed.seeds("a/1", "a/2")
    failed, page = await bench.worker.lease(2)
    await bench.worker.exchange(
        settles=[done(page, links("a", [3], priority=7))], requeues=[Requeue(token=failed.token)]
    )
    assert [domain.total for domain in (await bench.state()).domains] == [2]
    await bench.feed.say("stop")
    await bench.tend()
    assert not await bench.redis.keys("*}b:*")
