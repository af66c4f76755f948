"""Promotion by in-links, in a frontier of one partition and of three."""

from __future__ import annotations

from dataclasses import replace

from crawlstream.model.effects import FOUND, FOUND_AGAIN
from crawlstream_frontier.link_rules.promotion import is_promoted, unpromoted
from support.contract.whole import Whole
from support.frontier.bench import links, url_of


async def test_links_of_other_partitions_promote(whole: Whole) -> None:
    """A page of each domain is promoted by its third link, another by the third of one worker."""
    domains = whole.domains()
    await whole.seeds(*(f"{name}/s{n}" for name in domains for n in range(4)), score="inlinks")
    leases = await whole.lease()
    for number, source in enumerate(domains):
        target = domains[(number + 1) % 3]
        groups = [links(target, paths, linked=FOUND) for paths in ("abcd", "c", "b", "c")]
        groups[2] = replace(groups[2], linked=FOUND_AGAIN)
        its = (lease for lease in leases if lease.domain == source)
        for lease, group in zip(its, groups, strict=True):
            whole.session(lease.partition)._children._link_cache.enter(-1)
            await whole.settle(lease, group)
            await whole.settled()
    pages = await whole.lease()
    for name in domains:
        of_domain = [page for page in pages if page.domain == name]
        assert [url_of(page) for page in of_domain] == [f"{name}/{path}" for path in "bcad"]
        assert [is_promoted(page.priority) for page in of_domain] == [True, True, False, False]
        assert {unpromoted(page.priority) for page in of_domain} == {40}
    for page in pages:
        await whole.settle(page)
    await whole.lease()
    state = await whole.state()
    assert (state.admitted, state.done, state.redirected, state.pending) == (30, 24, 6, 0)
    assert state.done_by_status["promoted"] == 6
    await whole.finish()
    await whole.finish()
    assert await whole.endings() == [("crawl_finished", 1)]


async def test_links_that_wait_for_credits_are_promoted_once_they_are_admitted(
    whole: Whole,
) -> None:
    """Links that are found while they wait do not count."""
    first, second, _ = whole.domains()
    names = (f"{first}/{n}" for n in range(4))
    await whole.seeds(*names, score="inlinks", max_pages=100)
    sources = await whole.lease()
    await whole.settle(sources[0], links(second, range(5), linked=FOUND))
    await whole.settled()
    for source in sources[1:3]:
        whole.session(source.partition)._children._link_cache.enter(-1)
        await whole.settle(source, links(second, [3], linked=FOUND))
        await whole.settled()
    assert url_of((await whole.lease())[0]) == f"{second}/3"
