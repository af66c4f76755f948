"""Questions to the frontier, answered page by page, so that none of them holds others up."""

from __future__ import annotations

import asyncio

from crawlstream.frontier import care, packing
from crawlstream.frontier.care import Run
from crawlstream.model.state import CrawlState, DomainBacklog


async def state_of(run: Run, name: str, *, with_domains: bool) -> CrawlState | None:
    """The ledger of a crawl's latest run and, if wanted, its domains; None for an unknown one."""
    domains: dict[str, DomainBacklog] = {}
    page = _page(run, name, "0" if with_domains else "")
    while True:
        answer = packing.unpack(await page)
        if not answer or not answer[2]:
            return None
        cursor = answer[3].decode()
        if cursor != "0":
            page = _page(run, name, cursor)
            # Let it leave: Redis reads on while this page is unpacked.
            await asyncio.sleep(0)
        # A scan may show a domain twice.
        domains.update((domain.domain, domain) for domain in packing.backlog(answer[4]))
        if cursor == "0":
            return packing.crawl_state(packing.pairs(answer[2]), list(domains.values()))


def _page(run: Run, name: str, cursor: str) -> asyncio.Future[object]:
    return asyncio.ensure_future(run("info", name, cursor, care.DOMAINS_PER_CALL))
