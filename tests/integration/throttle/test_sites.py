"""Rules for parts of a domain: the most specific one wins, whenever it was written."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from random import Random

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import Links, Seed
from crawlstream.model.inspection import PagePlace
from crawlstream.model.throttle_table import ThrottleRule, ThrottleTable
from crawlstream.model.url import host_of
from support.frontier.audit import audit
from support.frontier.bench import CRAWL, WIDE_OPEN, Bench, links, url_of
from support.windows import check_windows

pytest_plugins = ["support.frontier.fixtures"]

HOME, SHOP, DEEP, WWW = "example.com", "shop.example.com", "a.shop.example.com", "www.example.com"
SLOW = ThrottleRule(hits=1, window_s=10)
FAST = ThrottleRule(hits=1, window_s=1)
BLOCKED = ThrottleRule(hits=0, window_s=1)


async def feed(bench: Bench, host: str, *pages: object) -> None:
    """Feed pages of a host, filed under its registrable domain as every feeder does."""
    await bench.feed.put(*(seed(bench, host, page) for page in pages))


def seed(bench: Bench, host: str, page: object) -> Seed:
    """A page of a host, filed so."""
    return replace(bench.feed.seed(f"{host}/{page}"), domain=HOME)


def filed(host: str, *pages: object) -> Links:
    """Links to pages of a host, filed so."""
    return replace(links(host, pages), domain=HOME)


async def part(bench: Bench, default: ThrottleRule, rules: dict[str, ThrottleRule]) -> None:
    """Let rules apply, and let the feeder know: it files by the map that its last batch found."""
    await bench.rule(default, rules)
    await bench.feed.put()


async def come(bench: Bench) -> list[str]:
    """Pages that may be fetched now; they are fetched at once."""
    leases = await bench.worker.lease(50)
    await bench.worker.settle(*leases, sent_ms=0)
    return sorted(map(url_of, leases))


async def come_all(bench: Bench) -> list[str]:
    """As above, until nothing more may be fetched at this moment."""
    found: list[str] = []
    for _ in range(20):
        found += await come(bench)
    return sorted(found)


@pytest.mark.usefixtures("still")
async def test_a_rule_for_a_host_is_for_it_and_what_is_below(bench: Bench) -> None:
    """Its pages have an allowance of their own; the rest of the domain has another."""
    await part(bench, SLOW, {SHOP: FAST})
    for host in (HOME, WWW, SHOP, DEEP):
        await feed(bench, host, 1, 2)
    assert await come_all(bench) == [f"{HOME}/1", f"{SHOP}/1"]
    await bench.advance(1_000)
    assert await come_all(bench) == [f"{SHOP}/2"]
    await bench.advance(1_000)
    assert await come_all(bench) == [f"{DEEP}/1"]
    await bench.advance(8_000)
    assert await come_all(bench) == [f"{DEEP}/2", f"{HOME}/2"]
    await audit(bench.redis)


@pytest.mark.usefixtures("still")
async def test_links_are_filed_like_seeds(bench: Bench) -> None:
    """A group of links of several hosts of a domain becomes one for each site."""
    await bench.rule(WIDE_OPEN, {HOME: SLOW, SHOP: FAST, DEEP: FAST})
    await bench.feed.seeds("start/0")
    (lease,) = await bench.worker.lease()
    all_of_them = [filed(HOME, 1), filed(SHOP, 1, 2), filed(DEEP, 1), filed(WWW, 1)]
    group = replace(
        all_of_them[0],
        fingerprints=[name for each in all_of_them for name in each.fingerprints],
        entries=[entry for each in all_of_them for entry in each.entries],
    )
    await bench.worker.settle(lease, links=[group], sent_ms=0)
    assert await come_all(bench) == [f"{DEEP}/1", f"{HOME}/1", f"{SHOP}/1"]
    state = await bench.state()
    assert (state.done, state.queued) == (4, 2)
    await audit(bench.redis)


@pytest.mark.usefixtures("still")
async def test_what_waits_when_a_rule_is_written_goes_by_it(bench: Bench) -> None:
    """Pages filed before are moved when their turn comes; none is sent by the old rule."""
    await bench.rule(FAST)
    await feed(bench, SHOP, *range(5))
    assert await come_all(bench) == [f"{SHOP}/0"]
    await bench.rule(FAST, {SHOP: SLOW})
    found: list[tuple[int, str]] = []
    for second in range(40):
        found += [(second, url) for url in await come_all(bench)]
        await bench.advance(1_000)
    times = [second for second, _ in found]
    assert sorted(url for _, url in found) == [f"{SHOP}/{n}" for n in range(1, 5)]
    assert all(b - a >= 10 for a, b in pairwise(times)), times
    await audit(bench.redis)


@pytest.mark.usefixtures("still")
async def test_what_waits_when_a_rule_is_removed_goes_by_the_one_above(bench: Bench) -> None:
    """Applies the rule above to waiting pages, even if it allows nothing."""
    await part(bench, BLOCKED, {HOME: SLOW, SHOP: SLOW})
    await feed(bench, SHOP, 1, 2, 3)
    await feed(bench, HOME, 1, 2)
    assert len(await come_all(bench)) == 2
    await bench.rule(BLOCKED, {HOME: FAST})
    await bench.rule(BLOCKED, {HOME: FAST, "other": FAST})
    found: list[tuple[int, str]] = []
    for second in range(20):
        found += [(second, url) for url in await come_all(bench)]
        await bench.advance(1_000)
    assert sorted(url for _, url in found) == [f"{HOME}/2", f"{SHOP}/2", f"{SHOP}/3"]
    assert len({second for second, _ in found}) == 3, "two in one window of the same site"
    await audit(bench.redis)


async def test_a_block_covers_what_is_below_it_and_nothing_else(bench: Bench) -> None:
    """A blocked host leaves its domain open; a blocked domain closes its hosts, rules or not."""
    await bench.rule(blacklist=[SHOP])
    await come(bench)
    for host in (HOME, SHOP, DEEP):
        await feed(bench, host, 1)
    assert await come_all(bench) == [f"{HOME}/1"]
    await bench.rule(rules={SHOP: WIDE_OPEN}, blacklist=[HOME])
    await feed(bench, HOME, 2)
    assert await come_all(bench) == []
    await bench.rule()
    assert await come_all(bench) == [f"{DEEP}/1", f"{HOME}/2", f"{SHOP}/1"]


async def test_a_page_is_known_by_its_domain_whatever_it_is_counted_under(bench: Bench) -> None:
    """A rule that comes or goes lets no link be fetched twice, and page limits count the domain."""
    await bench.feed.seeds("start/0", domain_max_pages=3)
    (lease,) = await bench.worker.lease()
    await bench.worker.session.put_links(lease.token, [filed(SHOP, 1)])
    await bench.rule(rules={SHOP: WIDE_OPEN})
    await come(bench)
    await bench.worker.session.put_links(lease.token, [filed(SHOP, 1, 2)])
    await bench.rule()
    await bench.worker.settle(lease, links=[filed(SHOP, 2, 3), filed(HOME, 4)], sent_ms=0)
    await come_all(bench)
    state = await bench.state()
    assert (state.queued, state.held) == (0, 0)
    assert state.filtered_by_reason["domain_max_pages"] == 1
    await audit(bench.redis)


async def test_a_page_is_found_where_it_waits(bench: Bench) -> None:
    """Filed well or not, the inspecting tools find it."""
    inspector = bench.frontier.inspector
    await part(bench, SLOW, {SHOP: BLOCKED})
    await feed(bench, SHOP, 1)
    report = await inspector.page(CRAWL, f"http://{SHOP}/1")
    assert report is not None
    assert report.where == PagePlace.QUEUED
    await bench.rule(SLOW, {DEEP: BLOCKED})
    report = await inspector.page(CRAWL, f"http://{SHOP}/1")
    assert report is not None
    assert report.where in {PagePlace.QUEUED, PagePlace.SEEN, PagePlace.UNSURE}


async def test_stop_and_info_know_the_sites(bench: Bench) -> None:
    """A stopped crawl leaves nothing under the name of a site."""
    await part(bench, SLOW, {SHOP: SLOW})
    await feed(bench, SHOP, *range(5))
    await feed(bench, HOME, *range(5))
    state = await bench.state()
    assert {each.domain: each.total for each in state.domains} == {SHOP: 5, HOME: 5}
    await bench.feed.say("stop")
    await bench.tend()
    assert (await bench.state()).queued == 0
    assert not await bench.redis.keys("*b:*")
    await audit(bench.redis)


TABLES = [
    {},
    {HOME: FAST},
    {SHOP: FAST},
    {HOME: FAST, SHOP: SLOW},
    {SHOP: ThrottleRule(hits=3, window_s=2, moderated=False), DEEP: FAST},
    {WWW: FAST, HOME: ThrottleRule(hits=2, window_s=3, moderated=False)},
]


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("number", range(3))
async def test_no_edit_overruns_the_window_of_any_site(bench: Bench, number: int) -> None:
    """Rules come and go, feeders have old maps: by the rules in force no site is crowded."""
    random = Random(number)
    workers = [bench.another_worker(f"w{n}") for n in range(3)]
    fed = 0
    for _ in range(12):
        rules = random.choice(TABLES)
        await bench.rule(ThrottleRule(hits=1, window_s=2), rules)
        table = ThrottleTable(default=ThrottleRule(hits=1, window_s=2), rules=rules)
        sends: defaultdict[str, list[int]] = defaultdict(list)
        for _ in range(25):
            if random.random() < 0.3:
                fed += 1
                host = random.choice((HOME, SHOP, DEEP, WWW))
                await feed(bench, host, *(f"{fed}-{n}" for n in range(4)))
            worker = random.choice(workers)
            leases: list[Lease] = await worker.lease(random.choice((1, 5, 50)))
            at = await bench.clock()
            for lease in leases:
                assert lease.domain == table.site_of(host_of(lease.entry.url))
                sends[lease.domain].append(at)
                if random.random() < 0.2:
                    await worker.requeue(lease, sent_ms=0)
                else:
                    await worker.settle(lease, sent_ms=0)
            await bench.advance(random.choice((50, 300, 1_100)))
        for site, times in sends.items():
            check_windows(times, table.rule_for(site))
    await audit(bench.redis)
