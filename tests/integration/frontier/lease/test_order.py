"""The order of leases: priorities, turns of equals, and how a batch is made up."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from crawlstream.model.throttle_table import ThrottleRule
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, links, url_of

pytest_plugins = ["support.frontier.fixtures"]


async def test_equal_priority_is_first_in_first_out(bench: Bench) -> None:
    """Entries of one crawl, domain and priority leave in the order in which they came."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(30)))
    urls = await bench.worker.urls(7) + await bench.worker.urls(1) + await bench.worker.urls(50)
    assert urls == [f"a/{i}" for i in range(30)]


async def test_a_higher_priority_leaves_first_within_a_domain(bench: Bench) -> None:
    """Priorities of one domain are served from the highest down, negative ones too."""
    for priority in (-100, 20, 90, 0):
        await bench.feed.seeds(f"a/{priority}", priority=priority)
    assert await bench.worker.urls() == ["a/90", "a/20", "a/0", "a/-100"]


async def test_a_higher_priority_leaves_first_across_domains(bench: Bench) -> None:
    """A domain with one urgent entry is served before domains with many others."""
    for i in range(20):
        await bench.feed.seeds(f"d{i}/1", f"d{i}/2")
    await bench.feed.seeds("d7/urgent", "new/urgent", priority=100)
    assert sorted(await bench.worker.urls(2)) == ["d7/urgent", "new/urgent"]


async def test_a_batch_takes_all_of_the_best_before_anything_else(bench: Bench) -> None:
    """Urgent entries of one domain fill a batch though others are ready."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(10)), "c/0", priority=100)
    await bench.feed.seeds(*(f"b/{i}" for i in range(10)))
    urls = await bench.worker.urls(12)
    assert sorted(urls[:11]) == sorted([*(f"a/{i}" for i in range(10)), "c/0"])
    assert urls[11:] == ["b/0"]


async def test_a_claim_that_is_out_of_date_does_not_win(bench: Bench) -> None:
    """A domain whose urgent entry has gone is served by what it has left."""
    await bench.feed.seeds("a/urgent", priority=100)
    await bench.feed.seeds("a/late", priority=10)
    await bench.feed.seeds("b/middle", priority=50)
    assert await bench.worker.urls(1) == ["a/urgent"]
    assert await bench.worker.urls(1) == ["b/middle"]
    assert await bench.worker.urls(1) == ["a/late"]


async def test_entries_of_a_stopped_crawl_do_not_lift_their_domain(bench: Bench) -> None:
    """Ranks a domain by other crawls once a crawl is stopped."""
    other = replace(CRAWL, crawlid="other")
    await bench.feed.seeds("a/urgent", priority=100, crawl=other)
    await bench.feed.seeds("a/late", priority=10)
    await bench.feed.seeds("b/middle", priority=50)
    await bench.feed.put(bench.feed.command("stop", other))
    assert await bench.worker.urls(1) == ["b/middle"]
    assert await bench.worker.urls(1) == ["a/late"]


async def test_a_blocked_domain_of_a_stopped_crawl_leaves_the_index(bench: Bench) -> None:
    """Removes a blocked domain from the index when its turn comes after the stop."""
    await bench.feed.seeds("a/1", "b/1")
    await bench.feed.say("stop")
    await bench.feed.seeds("c/1")
    await bench.rule(blacklist=["a", "b"])
    await bench.worker.lease(10)
    assert (await bench.frontier.queries.state()).backlog.get("link", {"domains": 0}) == {
        "domains": 0
    }


async def test_a_swept_crawl_does_not_lift_its_domain(bench: Bench) -> None:
    """A domain whose best entries were swept away waits behind domains that are better now."""
    other = replace(CRAWL, crawlid="other")
    await bench.feed.seeds("a/urgent", priority=100, crawl=other)
    await bench.feed.seeds("a/late", priority=10)
    await bench.feed.seeds("b/1", "b/2", priority=50)
    await bench.feed.put(bench.feed.command("stop", other))
    await bench.tend()
    assert await bench.worker.urls(2) == ["b/1", "b/2"]
    assert await bench.worker.urls(2) == ["a/late"]


async def test_equal_domains_take_turns(bench: Bench) -> None:
    """Domains of one priority are served in turn, whichever was filled first or most."""
    await bench.feed.seeds(*(f"a/{i}" for i in range(50)))
    await bench.feed.seeds(*(f"b/{i}" for i in range(3)), "c/0")
    urls = [url for _ in range(6) for url in await bench.worker.urls(1)]
    assert [url[0] for url in urls] == ["a", "b", "c", "a", "b", "a"]


async def test_equal_domains_share_a_batch(bench: Bench) -> None:
    """A batch is split between the domains that are equally good."""
    for domain in "abcd":
        await bench.feed.seeds(*(f"{domain}/{i}" for i in range(50)))
    urls = await bench.worker.urls(40)
    assert {domain: sum(url[0] == domain for url in urls) for domain in "abcd"} == dict.fromkeys(
        "abcd", 10
    )


async def test_equal_crawls_of_a_domain_take_turns(bench: Bench) -> None:
    """A small crawl need not wait for a large one in the same domain."""
    crawls = [replace(CRAWL, crawlid=str(i)) for i in range(3)]
    await bench.feed.seeds(*(f"a/{i}" for i in range(50)), crawl=crawls[0])
    await bench.feed.seeds("a/1", "a/2", "a/3", crawl=crawls[1])
    await bench.feed.seeds("a/1", crawl=crawls[2])
    leases = await bench.worker.lease(8)
    assert [lease.crawl.crawlid for lease in leases] == ["0", "1", "2", "0", "1", "0", "1", "0"]


async def test_many_bands_of_a_domain_are_all_found(bench: Bench) -> None:
    """Crawls and priorities of one domain come and go without losing any entry."""
    crawls = [replace(CRAWL, crawlid=str(i)) for i in range(6)]
    for priority in (30, 10, 20):
        for crawl in crawls:
            await bench.feed.seeds("a/1", "a/2", priority=priority, crawl=crawl)
    first = await bench.worker.lease(15)
    await bench.worker.release(*first[:5])
    await bench.feed.seeds("a/late", priority=20)
    leases = await bench.worker.lease(100)
    assert len(first) + len(leases) == 36 + 1 + 5
    priorities = [lease.priority for lease in first[5:] + leases]
    assert sorted(priorities[10:], reverse=True) == priorities[10:]


async def test_a_spider_is_given_only_its_own(bench: Bench) -> None:
    """Links handed over to another spider are leased by that spider, under the same crawl."""
    await bench.feed.seeds("a/1")
    (lease,) = await bench.worker.lease()
    await bench.worker.settle(
        lease, links=[links("b", [1], spiderid="other: one"), links("b", [2])]
    )
    other = bench.another_worker("w2", "other: one")
    (handed,) = await other.lease(10)
    assert (url_of(handed), handed.crawl) == ("b/1", CRAWL)
    assert await bench.worker.urls() == ["b/2"]
    await other.requeue(handed)
    assert [lease.attempt for lease in await other.lease(10)] == [2]


def of_domains(urls: list[str]) -> Counter[str]:
    """How many of some URLs each domain has."""
    return Counter(url.split("/")[0] for url in urls)


async def test_a_large_batch_takes_several_of_a_domain_at_once(bench: Bench) -> None:
    """Takes several entries of a domain in a large batch; a hundred are of 13 domains."""
    await bench.feed.seeds(*(f"d{d}/{i}" for i in range(16) for d in range(26)))
    batches = [of_domains(await bench.worker.urls(100)) for _ in range(2)]
    assert all(len(batch) == 13 and set(batch.values()) == {7, 8} for batch in batches)
    assert not set(batches[0]) & set(batches[1])
    assert set(of_domains(await bench.worker.urls(100)).values()) == {7, 8}


async def test_a_small_batch_takes_one_of_each_domain(bench: Bench) -> None:
    """A worker's concurrent fetches are spread as widely as can be."""
    await bench.feed.seeds(*(f"d{d}/{i}" for i in range(2) for d in range(40)))
    assert set(of_domains(await bench.worker.urls(40)).values()) == {1}


async def test_a_large_batch_is_full_where_domains_have_little(bench: Bench) -> None:
    """Domains with one entry each, or a slow rule of their own, do not keep a batch short."""
    slow = {f"s{d}": ThrottleRule(hits=1, window_s=60) for d in range(30)}
    await bench.rule(WIDE_OPEN, slow)
    await bench.feed.seeds(*(f"s{d}/{i}" for i in range(5) for d in range(30)))
    await bench.feed.seeds(*(f"d{d}/0" for d in range(70)))
    assert len(await bench.worker.urls(100)) == 100


async def test_a_large_batch_serves_the_best_first(bench: Bench) -> None:
    """Urgent entries of more domains than a batch asks leave before anything else."""
    await bench.feed.seeds(*(f"d{d}/{i}" for i in range(10) for d in range(30)))
    await bench.feed.seeds(*(f"u{d}/urgent" for d in range(60)), priority=100)
    urls = await bench.worker.urls(100)
    assert all(url.endswith("/urgent") for url in urls[:60])
    assert len(urls) == 100


async def test_one_page_is_chosen_among_all_that_have_waited(bench: Bench) -> None:
    """If several domains end their pause at once, the most urgent is next, not the first."""
    await bench.rule(ThrottleRule(hits=1, window_s=10))
    for number in range(40):
        await bench.feed.seeds(f"d{number}/first", f"d{number}/second", priority=number)
    await bench.worker.sent(*reversed(await bench.worker.lease(40)))
    await bench.advance(10_000)
    assert await bench.worker.urls(1) == ["d39/second"]
