"""The watching waste guard of a crawler, on a real Redis and on sites that are served."""

from __future__ import annotations

import asyncio
import random

import pytest
from redis.asyncio import Redis

from crawling.page.page import Page
from crawling.quality.page_text import signature_of
from crawling.quality.traits import Traits
from crawling.waste.watch import WasteWatch
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import Entry
from crawlstream.model.event import GuardVerdict
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream_chaos.scripted_site import serving
from crawlstream_chaos.waste_sites.honest import Shop, Wiki
from crawlstream_chaos.waste_sites.served import ManySites
from crawlstream_chaos.waste_sites.site import GeneratedSite
from crawlstream_chaos.waste_sites.traps import Calendar, Orders, SessionIds
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.waste.packing import unpack
from support.crawler.cluster import CrawlerCluster
from support.crawler.leases import lease
from support.session.own import own_redis_server
from support.waiting import wait_until
from support.waste.crawling import ModelCrawl
from support.waste.small import SmallShop

__all__ = ["own_redis_server"]

pytest_plugins = ["support.crawler.fixtures"]

KEYS = FrontierKeys()


class Watched:
    """A waste guard with pages and events of a test."""

    def __init__(self, redis: Redis) -> None:
        self.frontier = Frontier(redis, KEYS)
        self.events: list[GuardVerdict] = []
        persons = self.frontier.person_verdicts
        self.watch = WasteWatch(
            lambda _: self.frontier.sketches, lambda _, url: url, self._publish, persons
        )

    async def _publish(self, event: GuardVerdict) -> None:
        self.events.append(event)

    def visit(self, count: int, domain: str = "a.example", *, is_watched: bool = True) -> None:
        """End pages that have one text."""
        for n in range(count):
            url = f"http://{domain}/list?sort={n}"
            page = Page(lease(entry=Entry(url=url)), f"{n}", status=200)
            page.is_watched, page.traits = is_watched, Traits(signature_of(["one text"], url))
            self.watch.note(page)


async def _calls(redis: Redis, *names: str) -> int:
    """Return the number of commands of some names, or of all but INFO."""
    stats = await redis.info("commandstats")
    calls = {name.removeprefix("cmdstat_"): each["calls"] for name, each in stats.items()}
    return sum(calls.get(name, 0) for name in names or calls.keys() - {"info"})


@pytest.fixture
def watched(redis: Redis) -> Watched:
    """Return a guard of this test's own."""
    return Watched(redis)


async def test_a_verdict_is_published_once(watched: Watched) -> None:
    """Later pages that agree with it publish nothing."""
    for _ in range(4):
        watched.visit(16)
        await watched.watch.count_due()
    assert [(e.site, e.family, e.before, e.after) for e in watched.events] == [
        ("a.example", "?sort", "open", "last"),
        ("a.example", "?sort", "last", "dropped"),
    ]
    (raw,) = await watched.frontier.sketches.read(["a.example"])
    assert unpack(raw).pages == 64


async def test_a_mode_that_is_off_sends_redis_nothing(watched: Watched, redis: Redis) -> None:
    """Pages whose crawl is not watched cause no command."""
    before = await _calls(redis)
    watched.visit(1000, is_watched=False)
    await watched.watch.count_due()
    assert await _calls(redis) == before


async def test_64_sites_share_a_call(watched: Watched, redis: Redis) -> None:
    """The first votes of a site take a read and a script, further ones the script alone."""
    for n in range(64):
        watched.visit(16, f"s{n}.example")
    await watched.watch.count_due()
    for n in range(64):
        watched.visit(16, f"s{n}.example")
    before = await _calls(redis, "evalsha", "mget")
    await watched.watch.count_due()
    after = await _calls(redis, "evalsha", "mget")
    assert after - before == 1


async def test_an_unavailable_redis_costs_votes_and_nothing_else(redis: Redis) -> None:
    """No page waits for its vote, and later votes count."""
    away = Redis(port=1, socket_connect_timeout=0.2)
    watched = Watched(away)
    watched.visit(16)
    await watched.watch.count_due()
    watched.frontier = Frontier(redis, KEYS)
    watched.visit(16)
    await watched.watch.count_due()
    (raw,) = await watched.frontier.sketches.read(["a.example"])
    assert unpack(raw).pages == 16
    await away.aclose()


async def test_a_lost_sketch_is_written_again(watched: Watched, redis: Redis) -> None:
    """A crawler that has seen it stores it with its next votes; others learn it again."""
    for _ in range(3):
        watched.visit(32)
        await watched.watch.count_due()
        await redis.delete(KEYS.guard("a.example"))
    other = Watched(redis)
    other.visit(32)
    await other.watch.count_due()
    for each in (watched, other):
        assert [event.after for event in each.events] == ["last", "dropped"]


LEARNED: dict[str, tuple[type[GeneratedSite], str, set[str]]] = {
    "127.0.0.1": (Calendar, "/events/#/#/#", {"last"}),
    "127.0.0.2": (SessionIds, "?s_id9", {"dropped"}),
    "127.0.0.4": (Orders, "?sort", {"last"}),
    "127.0.0.5": (Shop, "/p/*", set()),
    "127.0.0.6": (Wiki, "/wiki/*", set()),
}
"""Sites by their address, and the first verdict on a family within ``PAGES`` pages."""
PAGES = 400
SLOW_ENOUGH = ThrottleRule(hits=100, window_s=1, concurrency=16)
"""Pages vote up to some hundreds a second of a site; of more, not all do."""


def _of_the_model(kind: type[GeneratedSite], family: str) -> set[str]:
    """Return all verdicts of the model on a family."""
    crawl, seen = ModelCrawl(kind(), PAGES, acts=False), set[str]()
    for _ in crawl.batches():
        seen.add(crawl.model.verdicts.get(family, "open"))
    return seen - {"open"}


async def _all_have_voted(frontier: Frontier) -> bool:
    """Return whether the sketches have all votes but those of a last, incomplete batch."""
    found = await frontier.sketches.read(list(LEARNED))
    return all(unpack(raw).pages > PAGES - 16 for raw in found)


async def test_a_crawler_comes_to_the_verdicts_of_the_model(cluster: CrawlerCluster) -> None:
    """Pages of served sites give the same verdicts, while all links are followed."""
    ManySites.host({host: kind() for host, (kind, _, _) in LEARNED.items()})
    await cluster.set_rules(SLOW_ENOUGH, {})
    with serving({}, ManySites) as web, cluster.worker():
        seeds = [web.url("/", host) for host in LEARNED]
        crawl = await cluster.feed(*seeds, maxdepth=100, domain_max_pages=PAGES, guard="watch")
        state = await cluster.end_of(crawl, timeout_s=120)
        await wait_until(lambda: _all_have_voted(cluster.frontier), timeout_s=60)
    assert state.failed == 0
    events = cluster.records(cluster.topics.events)
    changes = [event for event in events if event["event"] == "guard_verdict"]
    for host, (kind, family, verdicts) in LEARNED.items():
        assert verdicts <= _of_the_model(kind, family), host
        found = {e["to"] for e in changes if (e["site"], e["family"]) == (host, family)}
        assert verdicts <= found, host
        assert bool(verdicts) == bool(found), host


async def test_lost_and_broken_sketches_change_no_page(
    cluster: CrawlerCluster, redis: Redis
) -> None:
    """A crawl fetches the same pages, whatever becomes of its sketches."""
    ManySites.host({"127.0.0.1": SmallShop()})
    seen: list[set[str]] = []
    for guard in ("off", "watch"):
        with serving({}, ManySites) as web, cluster.worker():
            crawl = await cluster.feed(web.url("/"), crawlid=guard, maxdepth=100, guard=guard)
            spoiling = asyncio.create_task(_spoil(redis))
            state = await cluster.end_of(crawl, timeout_s=120)
            spoiling.cancel()
        assert (state.failed, state.residual) == (0, 0)
        seen.append(set(web.paths()))
    assert seen[0] == seen[1]
    assert len(seen[0]) > 300


async def _spoil(redis: Redis) -> None:
    """Delete a sketch, or replace it with random bytes, until cancelled."""
    rng = random.Random(7)
    key = KEYS.guard("127.0.0.1")
    while True:
        await asyncio.sleep(0.05)
        if rng.random() < 0.5:
            await redis.delete(key)
        else:
            await redis.set(key, rng.randbytes(rng.randrange(2100)))
