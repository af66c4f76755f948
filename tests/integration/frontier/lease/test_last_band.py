"""The last band of a domain: it waits for the rest of its domain, and for no other domain."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crawlstream.model.effects import UNSENT, Outcome, Settle
from crawlstream_frontier.waste.last_band import LOWEST, is_last, last_of, lifted
from support.frontier.bench import CRAWL, Bench, links

pytest_plugins = ["support.frontier.fixtures"]

MOST_BANDS = 64


async def test_a_last_band_waits_for_the_rest_of_its_domain(bench: Bench) -> None:
    """Leases a last band after all others of its domain, whatever their priorities are."""
    await bench.feed.seeds("a/last", priority=last_of(100))
    await bench.feed.seeds("a/lowest", priority=LOWEST)
    await bench.feed.seeds("a/later", priority=last_of(-6_000))
    await bench.feed.seeds("a/first", priority=50)
    assert await bench.worker.urls() == ["a/first", "a/lowest", "a/last", "a/later"]


async def test_a_domain_with_a_last_band_alone_competes_like_any_other(bench: Bench) -> None:
    """A domain with only a last band competes by its former priority; equal domains take turns."""
    await bench.feed.seeds("a/1", "a/2", "a/3", priority=last_of(100))
    await bench.feed.seeds("b/1", "b/2", "b/3", priority=50)
    await bench.feed.seeds("c/1", "c/2", "c/3", priority=last_of(0))
    await bench.feed.seeds("d/1", "d/2", "d/3", priority=0)
    urls = [await bench.worker.urls(1) for _ in range(12)]
    flat = [url for some in urls for url in some]
    assert flat[:6] == ["a/1", "a/2", "a/3", "b/1", "b/2", "b/3"]
    assert flat[6:] == ["c/1", "d/1", "c/2", "d/2", "c/3", "d/3"]


async def test_a_better_page_that_comes_later_goes_first(bench: Bench) -> None:
    """Its domain then ranks by it, and by the last band again afterwards."""
    await bench.feed.seeds("a/last", priority=last_of(100))
    await bench.feed.seeds("a/better", priority=10)
    await bench.feed.seeds("b/1", priority=50)
    assert [await bench.worker.urls(1) for _ in range(3)] == [["b/1"], ["a/better"], ["a/last"]]


async def test_a_shift_of_its_crawl_moves_a_last_band_among_domains(bench: Bench) -> None:
    """Moves a last band among domains as far as other pages; in its domain it stays last."""
    other = replace(CRAWL, crawlid="other")
    await bench.feed.seeds("a/last", priority=last_of(0))
    await bench.feed.seeds("a/other", priority=1, crawl=other)
    await bench.feed.seeds("b/1", priority=50, crawl=other)
    await bench.feed.seeds("c/last", priority=last_of(0))
    await bench.feed.seeds("d/seed", priority=0)
    await bench.feed.say("reprioritize", priority=100)
    await bench.tend()
    urls = [url for _ in range(5) for url in await bench.worker.urls(1)]
    assert sorted(urls[:2]) == ["c/last", "d/seed"]
    assert urls[2:] == ["b/1", "a/other", "a/last"]


async def test_a_full_domain_puts_no_other_page_into_its_last_band(bench: Bench) -> None:
    """Puts no other page into the last band of a full domain, and no last page elsewhere."""
    await bench.feed.seeds("a/seed", priority=100)
    (lease,) = await bench.worker.lease()
    bands = [links("a", [f"p{n}"], priority=n) for n in range(MOST_BANDS)]
    await bench.worker.session.put_links(
        lease.token,
        [
            *bands,
            links("a", ["last"], priority=last_of(5)),
            links("a", ["low"], priority=-500),
            links("a", ["later"], priority=last_of(-5_000)),
        ],
    )
    await bench.worker.settle(lease)
    leases = [one for _ in range(20) for one in await bench.worker.lease(100)]
    found = [(one.entry.url.rpartition("/")[2], is_last(one.priority)) for one in leases]
    assert found[-2:] == [("last", True), ("later", True)]
    assert ("low", False) in found[:-2]
    assert len(found) == MOST_BANDS + 3


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.SKIPPED])
async def test_a_run_with_a_last_band_ends(bench: Bench, outcome: Outcome) -> None:
    """Ends a run with a last band, whether its pages are fetched or skipped."""
    await bench.feed.seeds("a/1", "b/1", priority=last_of(1))
    leases = await bench.worker.lease(9)
    sent_ms = UNSENT if outcome is Outcome.SKIPPED else 1
    settles = [Settle(token=one.token, outcome=outcome, sent_ms=sent_ms) for one in leases]
    await bench.worker.exchange(settles=settles)
    state = await bench.state()
    assert (state.ended, state.pending, state.residual) == (2, 0, 0)


def test_priorities_keep_their_order() -> None:
    """A hundred steps are one, and the inverse is as near as that."""
    assert [last_of(p) for p in (7_000, 100, 0, -7_000)] == [-7_830, -7_899, -7_900, -7_970]
    assert [lifted(p) for p in (50, LOWEST, -7_899, -7_970)] == [50, LOWEST, 100, -7_000]
