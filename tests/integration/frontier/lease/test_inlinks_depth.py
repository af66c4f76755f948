"""Depths of promoted pages: a crawl with a score reaches all that one without reaches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest

from crawlstream.model.crawl import Lease
from crawlstream.model.effects import FOUND, FOUND_EARLY, Links
from crawlstream_frontier.link_rules.promotion import is_promoted, unpromoted
from support.frontier.bench import CRAWL, Bench, links, url_of
from support.frontier.lua import planted

pytest_plugins = ["support.frontier.fixtures"]

Graph = Mapping[int, Sequence[int]]


def random_graph(seed: int) -> Graph:
    """Return links by page: most lead to the pages that have many, and some against their age."""
    random, pages = Random(seed), 50
    graph = defaultdict[int, list[int]](list)
    bag = [0]
    for page in range(1, pages):
        graph[random.choice(bag)].append(page)
        graph[page] += {random.choice(bag) for _ in range(3)}
        bag += [page, *graph[page]]
    for _ in range(pages):
        graph[random.randrange(pages)].append(random.randrange(pages))
    return graph


def depths_in(graph: Graph, most: int) -> dict[int, int]:
    """Return the pages that are within some depth of page 0, with their depths."""
    depths, level = {0: 0}, [0]
    for depth in range(1, most + 1):
        level = [to for page in level for to in dict.fromkeys(graph[page]) if to not in depths]
        depths |= dict.fromkeys(level, depth)
        level = [*dict.fromkeys(level)]
    return depths


def links_of(lease: Lease, graph: Graph, most: int) -> list[Links]:
    """Return the links of a page, as a worker sends them."""
    domain, page = url_of(lease).split("/")
    depth, targets = lease.entry.depth + 1, dict.fromkeys(graph[int(page)])
    if depth > most or not targets:
        return []
    linked = FOUND_EARLY if is_promoted(lease.priority) else FOUND
    priority = unpromoted(lease.priority) - 10
    return [links(domain, targets, priority=priority, linked=linked, depth=depth)]


async def crawled(bench: Bench, graph: Graph, most: int, name: str) -> tuple[dict[int, int], int]:
    """Crawl page by page; return each page with its depth, and how many came out of turn."""
    await bench.feed.seeds(f"{name}/0", priority=100, score="inlinks")
    depths, early = dict[int, int](), 0
    while leases := await bench.worker.lease(1):
        depths[int(url_of(leases[0]).split("/")[1])] = leases[0].entry.depth
        early += is_promoted(leases[0].priority)
        await bench.worker.settle(leases[0], links=links_of(leases[0], graph, most))
    return depths, early


async def test_a_scored_crawl_reaches_all_pages_within_its_depth(bench: Bench) -> None:
    """Each at its shortest distance, as breadth first. Few seeds find the fourth bug below."""
    promoted = 0
    for seed in (0, 3, 4, 129):
        graph = random_graph(seed)
        depths, early = await crawled(bench, graph, 4, f"d{seed}")
        assert depths == depths_in(graph, 4), seed
        promoted += early
    assert promoted > 20


async def found_by(bench: Bench, *groups: Links) -> None:
    """Find these links one after the other, each as a worker that has seen none of them before."""
    await bench.feed.seeds(*(f"s{n}/" for n in range(len(groups))), priority=100, score="inlinks")
    for lease, group in zip(await bench.worker.lease(100), groups, strict=True):
        bench.worker.session._children._link_cache.enter(-1)
        await bench.worker.settle(lease, links=[replace(group, linked=FOUND)])


async def test_a_page_is_granted_with_the_least_depth_of_its_links(bench: Bench) -> None:
    """Grants a page with its least depth, even if rules rank the nearer link lower."""
    await found_by(
        bench,
        links("a", [1], priority=80, depth=5),
        links("a", [1], priority=10, depth=2),
        links("b", [1], depth=20_000),
        links("b", [1], depth=300),
        links("b", [1], depth=20_001),
        links("c", [1], depth=200),
        links("c", [1], depth=128),
    )
    pages = await bench.worker.lease(100)
    depths = {url_of(page): page.entry.depth for page in pages}
    assert depths == {"a/1": 2, "b/1": 300, "c/1": 128}
    assert [page.priority for page in pages if page.domain == "a"] == [80]


async def test_a_promoted_page_shows_the_depth_that_it_will_have(bench: Bench) -> None:
    """It goes ahead of the depth before its own, also by links of greater depth."""
    await found_by(
        bench,
        replace(links("a", [1, 2], priority=40, depth=2), linked=FOUND),
        *(links("a", [2], priority=20, depth=4) for _ in range(2)),
    )
    found = await bench.frontier.queries.next_pages(CRAWL, 9)
    assert found
    assert [(page.url, page.depth, page.priority) for page in found.pages] == [
        ("http://a/2", 2, 58),
        ("http://a/1", 2, 40),
    ]
    await bench.worker.lease(100)


async def test_a_page_with_nearer_links_is_granted_once(bench: Bench) -> None:
    """Each puts an entry, also once the page was promoted; the others end as redirected."""
    pages = (links("a", [1], priority=10 * n, depth=10 - n) for n in range(1, 6))
    await found_by(bench, *pages)
    assert [(url_of(one), one.priority) for one in await bench.worker.lease(100)] == [("a/1", 68)]
    state = await bench.state()
    assert (state.admitted, state.redirected, state.queued) == (10, 4, 0)


Test = Callable[[Bench], Awaitable[None]]
REACH = test_a_scored_crawl_reaches_all_pages_within_its_depth
SHOWN = test_a_promoted_page_shows_the_depth_that_it_will_have
LEAST = test_a_page_is_granted_with_the_least_depth_of_its_links
BUGS: Mapping[str, tuple[str, str, Test]] = {
    "a promoted page goes ahead of more than one depth": (
        "PROMOTED_WITHIN, PROMOTED = 17, 18",
        "PROMOTED_WITHIN, PROMOTED = 27, 28",
        REACH,
    ),
    "a promoted page has the depth of its third link": (
        "least = math.min(least, found)\n",
        "least = found\n",
        REACH,
    ),
    "a nearer link puts no copy": (
        "if not rises and found >= least then",
        "if not rises then",
        REACH,
    ),
    "a nearer link leaves a promoted page where it waits": (
        "if not rises and found >= least then",
        "if not rises and (was_promoted or found >= least) then",
        REACH,
    ),
    "a grant has the depth of its entry": (
        "depth.write(body, math.floor(string.match(value, '^%d+') / A_LEVEL))",
        "body",
        LEAST,
    ),
    "bytes of a depth weigh less": ("unit = unit * MORE", "unit = unit + MORE", LEAST),
    "a promoted page shows the depth of its third link": (
        "depth.write(body, place.depth)",
        "body",
        SHOWN,
    ),
    "a promoted page ranks by the depth of its third link": (
        "+ LEVEL * (depth.read(body) - place.depth)",
        "",
        SHOWN,
    ),
}


@pytest.mark.parametrize("bug", BUGS.values(), ids=BUGS)
async def test_a_named_test_finds_the_bug(bug: tuple[str, str, Test], bench: Bench) -> None:
    """An assertion of it fails with the bug."""
    right, wrong, named = bug
    with planted(right, wrong), pytest.raises(AssertionError):
        await named(bench)
    await bench.redis.flushdb()
