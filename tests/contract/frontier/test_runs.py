"""Promises of a frontier to clients, of one partition and of three alike: runs and their ends."""

from __future__ import annotations

from crawlstream.model.crawl import CrawlKey, Lease
from crawlstream.model.effects import UNSENT, Outcome
from crawlstream.model.words.price import Price
from support.contract.whole import Whole
from support.frontier.bench import CRAWL, links, url_of

OTHER = CrawlKey("link", "app", "other")


async def one_by_one(whole: Whole, partition: int) -> list[Lease]:
    """All pages of a partition, in the order in which they are granted."""
    found: list[Lease] = []
    while leases := await whole.lease_at(partition):
        found += leases
    return found


async def test_a_run_ends_once_with_the_counters_of_all(whole: Whole) -> None:
    """Ends a run once, when nothing of it is left in any partition, with the sum of counters."""
    domains = whole.domains()
    await whole.seeds(f"{domains[0]}/")
    (lease,) = await whole.lease()
    await whole.settle(lease, *(links(domain, "ab") for domain in domains))
    await whole.finish()
    assert await whole.endings() == []
    assert len(await whole.crawl_all()) == 6
    await whole.finish()
    (ending,) = [one for one in await whole.owed() if one.kind == "crawl_finished"]
    assert ending.run == 1
    assert (ending.counters["admitted"], ending.counters["done"]) == (7, 7)
    assert ending.reasons["done"] == {"2xx": 7}
    for _ in range(2):
        await whole.finish()
    assert await whole.endings() == []


async def test_charges_of_a_run_are_added_up_by_currency(whole: Whole) -> None:
    """They are those of all partitions, exactly; the next run begins with none."""
    domains = whole.domains()
    most = Price("USD", 10**12 + 1)
    await whole.seeds(*(f"{domain}/" for domain in domains))
    for lease in await whole.lease():
        await whole.settle(lease, charged=most)
    assert (await whole.state()).charged == {"USD": 3 * most.millionths}
    await whole.seeds(f"{domains[1]}/other")
    (lease,) = await whole.lease()
    await whole.settle(lease, charged=Price("EUR", 1))
    for _ in range(2):
        await whole.finish()
    (ending,) = [one for one in await whole.owed() if one.kind == "crawl_finished"]
    assert ending.reasons["charged"] == {"USD": 3 * most.millionths, "EUR": 1}
    await whole.seeds(f"{domains[0]}/")
    assert (await whole.state()).charged == {}


async def test_skipped_pages_of_a_run_are_added_up_by_reason(whole: Whole) -> None:
    """They are those of all partitions; the next run begins with none."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/" for domain in domains))
    reasons = ("guard_path", "guard_host", "guard_path")
    for lease, reason in zip(await whole.lease(), reasons, strict=True):
        own = {f"{reason} a.example /a": 1}
        await whole.settle(
            lease, outcome=Outcome.SKIPPED, reason=reason, sent_ms=UNSENT, refused=own
        )
    skipped = {"guard_path": 2, "guard_host": 1}
    state = await whole.state()
    assert (state.skipped, state.skipped_by_reason, state.residual) == (3, skipped, 0)
    families = {f"{reason} a.example /a": count for reason, count in skipped.items()}
    assert state.refused_by_family == families
    for _ in range(2):
        await whole.finish()
    (ending,) = [one for one in await whole.owed() if one.kind == "crawl_finished"]
    assert (ending.counters["admitted"], ending.counters["skipped"]) == (3, 3)
    assert ending.reasons["skipped"] == skipped
    assert ending.reasons["refused"] == families
    await whole.seeds(f"{domains[0]}/")
    state = await whole.state()
    assert (state.skipped, state.skipped_by_reason, state.refused_by_family) == (0, {}, {})


async def test_a_run_is_open_while_a_link_is_on_its_way(whole: Whole) -> None:
    """Its page is complete, and no partition has anything: but one has still to read."""
    first, second, _ = whole.domains()
    await whole.seeds(f"{first}/")
    (lease,) = await whole.lease()
    await whole.settle(lease, links(second, ["x"]))
    await whole.advance(10_000)
    for duty in whole._duties:
        await duty.look()
    assert await whole.endings() == []
    await whole.settled()
    assert await whole.crawl_all() == [f"{second}/x"]
    await whole.finish()
    assert await whole.endings() == [("crawl_finished", 1)]


async def test_the_next_run_counts_from_nothing_and_remembers(whole: Whole) -> None:
    """Its seed is fetched again, and what it leads to is known."""
    first, second, _ = whole.domains()
    for run, admitted in ((1, 2), (2, 1)):
        await whole.seeds(f"{first}/")
        (lease,) = await whole.lease()
        assert lease.run == run
        await whole.settle(lease, links(second, ["x"]))
        await whole.settled()
        assert len(await whole.crawl_all()) == admitted - 1
        await whole.finish()
        assert await whole.endings() == [("crawl_finished", run)]


async def test_a_stop_purges_everywhere_and_what_is_held_ends_well(whole: Whole) -> None:
    """It is published once, when nothing is in flight; late links do not enter, a new feed does."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/{n}" for domain in domains for n in range(3)))
    (held,) = await whole.lease(1)
    await whole.say("stop")
    assert await whole.lease() == []
    assert await whole.endings() == []
    await whole.settle(held, *(links(domain, ["late"]) for domain in domains))
    await whole.tend()
    (ending,) = [one for one in await whole.owed() if one.kind == "crawl_stopped"]
    assert (ending.counters["stopped"], ending.counters["done"]) == (8, 1)
    assert await whole.lease() == []
    await whole.seeds(f"{domains[1]}/0")
    (lease,) = await whole.lease()
    assert (url_of(lease), lease.run) == (f"{domains[1]}/0", 2)
    await whole.settle(lease, links(domains[2], ["late"]))
    await whole.settled()
    assert await whole.crawl_all() == [f"{domains[2]}/late"]


async def test_a_paused_crawl_rests_everywhere_and_goes_on(whole: Whole) -> None:
    """It admits, leases nothing and does not end; others go on."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/" for domain in domains))
    await whole.say("pause")
    assert await whole.lease() == []
    await whole.seeds(f"{domains[0]}/more")
    await whole.finish()
    assert await whole.endings() == []
    state = await whole.state()
    assert (state.queued, state.state) == (4, "paused")
    await whole.say("resume")
    await whole.tend()
    assert len(await whole.crawl_all()) == 4
    await whole.finish()
    assert await whole.endings() == [("crawl_finished", 1)]


async def test_a_crawl_is_moved_in_all_partitions(whole: Whole) -> None:
    """Reprioritized, it comes before others, its later pages too."""
    domains = whole.domains()
    await whole.seeds(*(f"{domain}/raised" for domain in domains), priority=10)
    await whole.seeds(*(f"{domain}/other" for domain in domains), priority=60, crawl=OTHER)
    await whole.say("reprioritize", priority=90)
    await whole.tend()
    await whole.seeds(f"{domains[0]}/later", priority=5)
    order = [url_of(lease) for p in whole.every for lease in await one_by_one(whole, p)]
    for domain in domains:
        assert order.index(f"{domain}/raised") < order.index(f"{domain}/other")
    assert order.index(f"{domains[0]}/later") < order.index(f"{domains[0]}/other")


async def test_what_is_told_of_the_whole_adds_up(whole: Whole) -> None:
    """Counters, crawls and domains, in any partition."""
    domains = whole.domains(each=2)
    await whole.seeds(*(f"{domain}/{n}" for domain in domains for n in range(2)))
    await whole.lease(3)
    counters = await whole.frontiers.queries.state()
    assert (counters.queued, counters.held, counters.residual) == (9, 3, 0)
    (crawl,) = await whole.frontiers.queries.crawls(appid=CRAWL.appid)
    assert (crawl.queued, crawl.held, crawl.run) == (9, 3, 1)
    assert sum(domain.total for domain in (await whole.state()).domains) == 9
