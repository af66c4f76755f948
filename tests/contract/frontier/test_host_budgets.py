"""Host budgets, in a frontier of one partition and of three."""

from __future__ import annotations

from crawlstream_frontier.link_rules.host_budgets import is_lower
from support.contract.whole import Whole
from support.frontier.bench import links, standing_to, url_of


async def test_links_of_other_partitions_count(whole: Whole) -> None:
    """Trusted domains of two partitions give a third one pages, and their trust."""
    first, second, third = whole.domains()
    await whole.seeds(f"{first}/", f"{second}/", host_budget=(0, 1), priority=100)
    for lease in await whole.lease():
        standing = standing_to(lease, third)
        await whole.settle(lease, links(third, "abcd", standing=standing))
        await whole.settled()
    pages = await whole.lease()
    own = [url_of(page) for page in pages if not is_lower(page.priority)]
    assert own == [f"{third}/a", f"{third}/b"]
    assert [url_of(page) for page in pages] == [f"{third}/{path}" for path in "abcd"]
    assert all(page.is_trusted for page in pages)
    for page in pages:
        await whole.settle(page, links(first, "a", standing=standing_to(page, first)))
        await whole.settled()
    (page,) = await whole.lease()
    assert (url_of(page), is_lower(page.priority)) == (f"{first}/a", False)


async def test_links_that_wait_for_credits_have_the_budget(whole: Whole) -> None:
    """They are admitted under it once their crawl has credits for them."""
    first, second, _ = whole.domains()
    await whole.seeds(f"{first}/", host_budget=(1, 0), max_pages=100)
    (lease,) = await whole.lease()
    await whole.settle(lease, links(second, "abc", standing=standing_to(lease, second)))
    await whole.settled()
    pages = {url_of(page): is_lower(page.priority) for page in await whole.lease()}
    assert pages == {f"{second}/a": False, f"{second}/b": True, f"{second}/c": True}
