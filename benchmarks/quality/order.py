"""Compare the order of a crawl with a score with breadth first, on graphs with known PageRank.

Two workers share a frontier, each with its own memory of links; pages come from the graph, so that
only their order is measured. A figure is the area under the curve of PageRank's mass over the first
fifth of the fetches, as a share of that of the best possible order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from random import Random

from lib.harness import Benchmark, Figures, Line
from lib.load import KEYS, SPIDER, done, open_frontier
from redis.asyncio import Redis

from crawlstream.model.crawl import Entry, Lease
from crawlstream.model.effects import FOUND, FOUND_EARLY, Links
from crawlstream.model.url import fingerprint
from crawlstream.wire.stored import encode_entry
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.link_rules.promotion import is_promoted, unpromoted

PAGES, DEGREE, DOMAINS, WORKERS, BATCH = 3_000, 6, 50, 2, 4
SHARE = 0.2
DAMPING, ROUNDS = 0.85, 25
Graph = Sequence[Sequence[int]]
"""Links of each page. Page n is on domain n modulo ``DOMAINS``."""


def by_fame(random: Random) -> Graph:
    """Return a graph in which a new page links to older ones mostly by their links (Barabási)."""
    links: list[list[int]] = [[] for _ in range(PAGES)]
    fame = list(range(DEGREE))
    for page in range(DEGREE, PAGES):
        targets = {
            random.choice(fame) if random.random() < 0.85 else random.randrange(page)
            for _ in range(DEGREE)
        }
        links[page] += targets
        fame += [*targets, page]
        for _ in range(2):
            links[random.choice(fame)].append(page)
    return links


def by_copies(random: Random) -> Graph:
    """Return a graph in which a new page copies most links of an older one (Kleinberg)."""
    links: list[list[int]] = [[] for _ in range(PAGES)]
    for page in range(1, PAGES):
        model = links[random.randrange(page)]
        for place in range(DEGREE):
            is_copy = model and random.random() > 0.3
            links[page].append(model[place % len(model)] if is_copy else random.randrange(page))
        for _ in range(2):
            links[random.randrange(page)].append(page)
    return links


def pagerank(graph: Graph) -> Sequence[float]:
    """Return the PageRank of each page."""
    rank = [1 / PAGES] * PAGES
    for _ in range(ROUNDS):
        new, loose = [0.0] * PAGES, 0.0
        for page, links in enumerate(graph):
            loose += 0.0 if links else rank[page]
            for target in links:
                new[target] += DAMPING * rank[page] / len(links)
        base = (1 - DAMPING + DAMPING * loose) / PAGES
        rank = [base + each for each in new]
    return rank


def _links(pages: Sequence[int], depth: int, priority: int, linked: int) -> Links:
    """Return links to pages of one domain."""
    domain = f"{pages[0] % DOMAINS}.example"
    urls = [f"http://{domain}/{page}" for page in pages]
    return Links(
        domain=domain,
        priority=priority,
        linked=linked,
        fingerprints=[*map(fingerprint, urls)],
        entries=[encode_entry(Entry(url=url, depth=depth)) for url in urls],
    )


def _children(graph: Graph, lease: Lease, *, has_score: bool) -> list[Links]:
    """Return the links of a page, as a crawler sends them."""
    linked = FOUND_EARLY if is_promoted(lease.priority) else FOUND
    domains: dict[int, list[int]] = {}
    for target in dict.fromkeys(graph[_page_of(lease)]):
        domains.setdefault(target % DOMAINS, []).append(target)
    depth, priority = lease.entry.depth + 1, unpromoted(lease.priority) - 10
    number = linked if has_score else 0
    return [_links(pages, depth, priority, number) for pages in domains.values()]


def _page_of(lease: Lease) -> int:
    return int(lease.entry.url.rpartition("/")[2])


async def order_of(redis: Redis, graph: Graph, *, has_score: bool) -> Sequence[int]:
    """Crawl from three pages on; return the first pages in the order of their leases."""
    filler, held = await open_frontier(redis)
    for page in (PAGES - 1, PAGES // 2, PAGES // 3):
        await filler.put_links(held.token, [_links([page], 1, 500, FOUND * has_score)])
    frontier, order = Frontier(redis, KEYS), list[int]()
    workers = [frontier.session(f"worker-{n}", SPIDER) for n in range(WORKERS)]
    leases: list[Sequence[Lease]] = [()] * WORKERS
    while len(order) < PAGES * SHARE:
        for n, worker in enumerate(workers):
            ends = [
                done(lease, _children(graph, lease, has_score=has_score)) for lease in leases[n]
            ]
            leases[n] = (await worker.exchange(settles=ends, want=BATCH)).leases
            order += map(_page_of, leases[n])
    return order[: int(PAGES * SHARE)]


def area(masses: Sequence[float]) -> float:
    """Return the area under the curve of a mass."""
    return sum(accumulate(masses))


GRAPHS: dict[str, Callable[[Random], Graph]] = {"fame": by_fame, "copies": by_copies}


async def measure(redis: Redis) -> Figures:
    """Crawl each graph breadth first, and with a score."""
    figures, random = dict[str, float](), Random(3)
    for name, graph_of in GRAPHS.items():
        graph = graph_of(random)
        rank = pagerank(graph)
        best = area(sorted(rank, reverse=True)[: int(PAGES * SHARE)])
        for way, has_score in (("breadth_first", False), ("inlinks", True)):
            order = await order_of(redis, graph, has_score=has_score)
            assert len({*order}) == len(order), "a page was leased twice"
            figures[f"{name}_{way}"] = area([rank[page] for page in order]) / best
    return figures


if __name__ == "__main__":
    Benchmark(
        name="order",
        about="PageRank that the first fifth of a crawl has, of the best possible order.",
        measure=measure,
        lines={
            "fame_inlinks": Line(floor=0.80, goal=0.87, unit="", more=True),
            "copies_inlinks": Line(floor=0.89, goal=0.92, unit="", more=True),
        },
        repetitions=1,
    ).main()
