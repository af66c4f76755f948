"""Dedupe: exact and compact while domains grow out of shared sets into sets of their own."""

from __future__ import annotations

from random import Random

from support.frontier import Bench, links

pytest_plugins = ["support.frontier_fixtures"]

INTEGERS = "intset"
"""How Redis keeps a small set of integers: 8 bytes each."""


async def test_each_link_enters_once_however_large_a_domain_is(bench: Bench) -> None:
    """One by one or in groups: what was new entered, and the sets of fingerprints stay compact."""
    random = Random(5)
    await bench.feed.seeds("seed/1")
    (hold,) = await bench.worker.lease(1)
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
        await bench.frontier.put_links(bench.worker.name, "link", hold.token, groups)
    state = await bench.state()
    assert state.queued == sum(pages.values())
    assert state.filtered_by_reason == {"duplicate": sum(pages.values())}
    sets = [*await bench.redis.keys("*}s:*"), *await bench.redis.keys("*}e:*")]
    assert len(sets) > 10
    for key in sets:
        assert await bench.redis.object("encoding", key) == INTEGERS.encode(), key
    await bench.worker.settle(hold)
