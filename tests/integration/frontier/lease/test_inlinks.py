"""Promotion by in-links: a waiting page moves once, at its third link, and is fetched once."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import FOUND, Links
from crawlstream.model.inspection import NextReason, PagePlace
from crawlstream_frontier.link_rules.promotion import unpromoted
from crawlstream_frontier.waste.last_band import last_of
from support.frontier.audit import audit
from support.frontier.bench import CRAWL, Bench, links, url_of
from support.frontier.lua import planted

pytest_plugins = ["support.frontier.fixtures"]


def found(domain: str, *paths: object, priority: int = 40) -> Links:
    """Links of a crawl with a score."""
    return links(domain, paths, priority=priority, linked=FOUND)


async def seeds(bench: Bench, *urls: str) -> list[Lease]:
    """Feed pages that will bring links, and lease them."""
    await bench.feed.seeds(*urls, priority=100, score="inlinks")
    return await bench.worker.lease(100)


async def link(bench: Bench, leases: Sequence[Lease], *groups: Links) -> None:
    """End pages with the same links, each as if by a worker that has seen none of them before."""
    for lease in leases:
        bench.worker.session._children._link_cache.enter(-1)
        await bench.worker.settle(lease, links=groups)


async def test_a_page_moves_at_its_third_link(bench: Bench) -> None:
    """Moves a page at its third link ahead of those found with it; not at the second or fourth."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(4)))
    await link(bench, leases[:1], found("a", 1, 2, 3))
    await link(bench, leases[1:3], found("a", 3))
    await link(bench, leases[3:], found("a", 2, 3))
    pages = await bench.worker.lease(100)
    assert [url_of(page) for page in pages] == ["a/3", "a/1", "a/2"]
    assert [unpromoted(page.priority) for page in pages] == [40, 40, 40]
    await bench.worker.settle(*pages)
    await bench.worker.lease()
    state = await bench.state()
    assert (state.admitted, state.done, state.redirected, state.pending) == (8, 7, 1, 0)
    assert state.done_by_status["promoted"] == 1


async def test_a_worker_tells_of_its_third_link_alone(bench: Bench) -> None:
    """Its second one is not sent; its fourth neither."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(5)))
    for lease, moved in zip(leases, (False, False, True, True, True), strict=True):
        await bench.worker.settle(
            lease, links=[found("a", 1, 2) if lease is leases[0] else found("a", 2)]
        )
        keys = await bench.redis.keys("*b:link:1/58:a")
        assert bool(keys) is moved
    assert await bench.worker.urls() == ["a/2", "a/1"]
    assert (await bench.state()).filtered_by_reason == {"duplicate": 4}


async def test_promoted_pages_keep_their_order(bench: Bench) -> None:
    """They are fetched in the order in which their third links were found."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases[:2], found("a", 1, 2, 3, 4))
    await link(bench, leases[2:], found("a", 4, 1, 3))
    assert await bench.worker.urls() == ["a/4", "a/1", "a/3", "a/2"]


async def test_links_of_a_domain_to_itself_do_not_move_it_before_others(bench: Bench) -> None:
    """Its pages change places with each other: a farm of links on one site gains no turn."""
    farm = await seeds(bench, *(f"farm/s{n}" for n in range(3)))
    others = await seeds(bench, "s1/", "s2/", "s3/")
    await link(bench, farm[:1], found("farm", *range(6)), found("b", *range(6)))
    await link(bench, farm[1:], found("farm", 3, 4, 5))
    turns = [url for _ in range(6) for url in await bench.worker.urls(1)]
    assert [url for url in turns if url[0] == "f"] == ["farm/3", "farm/4", "farm/5"]
    assert [url for url in turns if url[0] == "b"] == ["b/0", "b/1", "b/2"]
    await link(bench, others, found("farm", 2))
    assert await bench.worker.urls(1) == ["farm/2"]


async def test_a_domain_ranks_by_its_next_page_as_it_was(bench: Bench) -> None:
    """A deep page that links of its own domain have promoted waits for other domains' pages."""
    farm = await seeds(bench, *(f"farm/s{n}" for n in range(3)))
    deep = found("farm", "deep", priority=30)
    await link(bench, farm[:1], deep, found("farm", "near"), found("b", 1, 2, priority=35))
    await link(bench, farm[1:], deep)
    turns = [url for _ in range(4) for url in await bench.worker.urls(1)]
    assert turns == ["b/1", "b/2", "farm/deep", "farm/near"]


@pytest.mark.parametrize("end", ["requeue", "release", "reap", "retire"])
async def test_a_page_that_comes_back_is_fetched_although_a_copy_is_left(
    bench: Bench, end: str
) -> None:
    """The copy is not granted before or after it."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases, found("a", 1, 2))
    other = bench.another_worker("w2")
    (page, *_) = await other.lease(1)
    assert url_of(page) == "a/1"
    if end == "requeue":
        await other.requeue(page, delay_ms=1_000)
    elif end == "release":
        await other.release(page)
    elif end == "retire":
        await other.session.retire()
    else:
        await bench.advance(60_000)
        await bench.tend()
    await bench.advance(1_000)
    urls = await bench.worker.crawl_all()
    assert sorted(urls) == ["a/1", "a/2"]
    await audit(bench.redis)
    assert (await bench.state()).pending == 0


async def test_a_page_that_was_fetched_is_not_promoted(bench: Bench) -> None:
    """Promotes no page that was fetched, and no seed, target of a redirect or last page."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(6)))
    await link(bench, leases[:2], found("a", "fetched"))
    await bench.worker.settle(*await bench.worker.lease())
    await bench.feed.seeds("a/seed", priority=1, score="inlinks")
    await link(
        bench,
        leases[2:],
        found("a", "fetched", "seed"),
        found("a", "last", priority=last_of(0)),
        replace(found("a", "target"), counts=False),
    )
    assert sorted(await bench.worker.crawl_all()) == ["a/last", "a/seed", "a/target"]
    assert (await bench.state()).redirected == 0


async def test_links_for_another_spider_do_not_count(bench: Bench) -> None:
    """A page stays with the spider of its first link; those for this spider promote it."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(5)))
    await link(bench, leases[:1], replace(found("a", 1, 2), spiderid="items"))
    await link(bench, leases[1:3], found("a", 2))
    await link(bench, leases[3:4], replace(found("a", 2), spiderid="items"))
    items = bench.another_worker("w2", "items")
    assert await bench.worker.urls() == []
    assert [key async for key in bench.redis.scan_iter("*b:items:1/58:a")] == []
    await link(bench, leases[4:], replace(found("a", 2), spiderid="items"))
    assert await items.urls() == ["a/2", "a/1"]


async def test_a_crawl_without_a_score_has_none(bench: Bench) -> None:
    """Its links are stored and ordered as ever."""
    await bench.feed.seeds(*(f"s{n}/" for n in range(3)))
    leases = await bench.worker.lease(9)
    await link(bench, leases, links("a", [1, 2]), links("a", [2]))
    assert await bench.redis.keys("*i:1:*") == []
    assert await bench.worker.urls() == ["a/1", "a/2"]


async def test_a_long_row_of_copies_ends_over_several_calls(bench: Bench) -> None:
    """A call ends some hundred, and grants what it reaches; nothing is left, and the run ends."""
    paths = [*range(700)]
    leases = await seeds(bench, *(f"s{n}/" for n in range(4)))
    await link(bench, leases[:1], found("a", *paths[:600]))
    await link(bench, leases[1:], found("a", *paths))
    pages = await bench.worker.crawl_all(500)
    assert pages == [f"a/{n}" for n in paths]
    state = await bench.state()
    assert (state.redirected, state.pending, state.done) == (700, 0, 704)
    left = await audit(bench.redis)
    assert not [name for name in left.values if name.startswith(("b:", "i:"))]


async def test_a_stop_removes_all_that_is_listed(bench: Bench) -> None:
    """Pages of a small domain, and of a large one."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases[:2], found("a", *range(600)), found("b", *range(5)))
    await link(bench, leases[2:], found("a", *range(100)), found("b", 1))
    assert len(await bench.redis.keys("*i:1:*")) == 2
    await bench.feed.say("stop")
    await bench.tend()
    assert not await bench.redis.keys("*i:1:*")


async def test_pages_in_parts_are_promoted(bench: Bench) -> None:
    """Promotes pages on the shelf like others; their former entries end in their turn."""
    bench.shelve(8)
    await bench.frontier.stocking.step()
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases[:2], found("a", *range(200)))
    while not (await bench.frontier.stocking.step()).is_idle:
        pass
    assert (await bench.state()).shelved > 100
    await link(bench, leases[2:], found("a", 150, 20))
    urls: list[str] = []
    while (await bench.state()).queued:
        urls += await bench.worker.crawl_all()
        await bench.frontier.stocking.step()
    assert urls == ["a/150", "a/20", *(f"a/{n}" for n in range(200) if n not in {20, 150})]


async def test_a_page_that_was_fetched_does_not_fail_by_its_former_entry(bench: Bench) -> None:
    """Fails no fetched page by its former entry when pages of a run without workers fail."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases[:2], found("a", 1, 2))
    await link(bench, leases[2:], found("a", 2))
    await bench.worker.settle(*await bench.worker.lease(1))
    for _ in range(30):
        await bench.tend()
        await bench.advance(3_600_000)
    owed = await bench.owed()
    failed = [one.lease for one in owed if one.kind == "page_failed"]
    assert [lease and url_of(lease) for lease in failed] == ["a/1"]
    assert owed[-1].counters["redirected"] == 1


async def test_a_link_into_the_last_band_promotes_nothing(bench: Bench) -> None:
    """It is suspected of waste; nor does a page far above the others move."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases[:1], found("a", 1, 2), found("a", 3, priority=7_500))
    await link(bench, leases[1:2], found("a", 1, 2), found("a", 3, priority=7_500))
    await link(bench, leases[2:], found("a", 2, priority=last_of(0)), found("a", 3, priority=7_500))
    assert await bench.worker.urls() == ["a/3", "a/1", "a/2"]
    state = await bench.state()
    assert (state.admitted, state.queued) == (6, 0)


async def test_queries_show_a_promoted_page_once(bench: Bench) -> None:
    """Shows a promoted page once, with its reason, and in no queue after its fetch."""
    leases = await seeds(bench, *(f"s{n}/" for n in range(3)))
    await link(bench, leases[:2], found("a", 1, 2))
    await link(bench, leases[2:], found("a", 2))
    found_next = await bench.frontier.queries.next_pages(CRAWL, 9)
    assert found_next
    assert [(page.url, page.reason) for page in found_next.pages] == [
        ("http://a/2", NextReason.PROMOTED),
        ("http://a/1", NextReason.LINK),
    ]
    inspector = bench.frontier.inspector
    waiting = await inspector.page(CRAWL, "http://a/2")
    assert waiting
    assert [(one.priority, one.place) for one in waiting.sightings] == [(58, 1)]
    await bench.worker.settle(*await bench.worker.lease(1))
    fetched = await inspector.page(CRAWL, "http://a/2")
    assert fetched
    assert (fetched.where, fetched.sightings) == (PagePlace.SEEN, [])
    found_next = await bench.frontier.queries.next_pages(CRAWL, 9)
    assert found_next
    assert [page.url for page in found_next.pages] == ["http://a/1"]


class Bug(NamedTuple):
    """Text in exactly one place of the Lua, its replacement, and the test that finds it."""

    right: str
    wrong: str
    found_by: Callable[[Bench], Awaitable[None]]


BUGS = {
    "waiting pages are not swept": Bug(
        right="is_scored and K.linked(c, fields[i]) or nil",
        wrong="nil",
        found_by=test_a_stop_removes_all_that_is_listed,
    ),
    "a page goes to the spider of its third link": Bug(
        right="if of == spider then",
        wrong="if value then",
        found_by=test_links_for_another_spider_do_not_count,
    ),
    "a link into the last band promotes": Bug(
        right="or priority <= LAST_BAND or priority > HIGHEST then",
        wrong="or priority > HIGHEST then",
        found_by=test_a_link_into_the_last_band_promotes_nothing,
    ),
    "a page far above the others is promoted": Bug(
        right="or priority <= LAST_BAND or priority > HIGHEST then",
        wrong="or priority <= LAST_BAND then",
        found_by=test_a_link_into_the_last_band_promotes_nothing,
    ),
    "a page that was fetched fails by its former entry": Bug(
        right="entries = promotion().take(c, domain, entries)\n    end\n    for",
        wrong="assert(promotion)\n    end\n    for",
        found_by=test_a_page_that_was_fetched_does_not_fail_by_its_former_entry,
    ),
    "next pages show both entries of a page": Bug(
        right="if number and not seen[fingerprint] then",
        wrong="if number then",
        found_by=test_queries_show_a_promoted_page_once,
    ),
    "next pages show the former entry of a page that was fetched": Bug(
        right="is_page = listed_states(c, domain ~= '' and domain or at, { fingerprint })[1] > 0",
        wrong="is_page = listed_states(c, at, { fingerprint })[1] > -1",
        found_by=test_queries_show_a_promoted_page_once,
    ),
    "a page that was fetched waits by its former entry": Bug(
        right="and listed_states(c, domain, { fingerprint })[1] > 0",
        wrong="and listed_states(c, domain, { fingerprint })[1] > -1",
        found_by=test_queries_show_a_promoted_page_once,
    ),
    "the third link of one worker is one like any other": Bug(
        right="(is_third or links == PROMOTED_BY - 1)",
        wrong="links == PROMOTED_BY - 1",
        found_by=test_a_worker_tells_of_its_third_link_alone,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_named_test_finds_the_bug(bug: Bug, bench: Bench) -> None:
    """An assertion of it fails with the bug."""
    with planted(bug.right, bug.wrong), pytest.raises(AssertionError):
        await bug.found_by(bench)
    await bench.redis.flushdb()
