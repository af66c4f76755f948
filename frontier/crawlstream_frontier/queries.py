"""Queries of the frontier, answered page by page, so that none of them delays other calls."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from crawlstream.keys import FrontierKeys, encode_id
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import NextPages
from crawlstream.model.state import CrawlState, DomainBacklog, FrontierState
from crawlstream.tasks import let_leave
from crawlstream_frontier.codec import state as codec
from crawlstream_frontier.codec import top
from crawlstream_frontier.codec.values import unpack, unpack_text
from crawlstream_frontier.scripts import Run, Scripts, our_errors

QUEUES_PER_CALL = 200
"""Bands whose lengths are read in one script: keeps it below 2 ms of CPU."""
LEDGERS_PER_CALL = 100
"""Crawls whose counters are read in one script, for the same reason."""
LANES_PER_CALL = 100
"""Crawls whose missing crawlers are looked up; a cluster that has all crawlers needs none."""
MOST_NEXT = 100
"""Pages that are listed as the next of a crawl."""
LISTED_BYTES = 8_000_000
"""Size of the domains in one answer, as JSON: about the largest record on Kafka."""
_BESIDE_NAME = 60
"""Bytes of a listed domain without its name."""


@dataclass(slots=True)
class ListingBudget:
    """Remaining size of the listings in an answer, for all of its crawls together."""

    left_bytes: int = LISTED_BYTES


class FrontierQueries:
    """Queries of crawls and of the frontier itself; a query changes nothing.

    Every method raises RedisUnavailable when Redis gives no answer.
    """

    def __init__(self, scripts: Scripts) -> None:
        self._scripts = scripts

    async def crawl_state(self, crawl: CrawlKey, *, with_domains: bool = True) -> CrawlState | None:
        """Return the ledger of a crawl's latest run; None for an unknown crawl."""
        budget = ListingBudget() if with_domains else None
        return await state_of(self._scripts.run, FrontierKeys.crawl_field(crawl), budget)

    async def crawls(
        self, *, spiderid: str | None = None, appid: str | None = None, with_domains: bool = False
    ) -> Sequence[CrawlState]:
        """Return the known crawls, of one spider and application if these are given."""
        wanted = ["*" if part is None else encode_id(part) for part in (spiderid, appid)]
        names = self._scripts.redis.hscan_iter(
            self._scripts.keys.names(), match=":".join([*wanted, "*"]), count=1000
        )
        with our_errors():
            distinct = {field.decode() async for field, _ in names}
        budget = ListingBudget() if with_domains else None
        return await states_of(self._scripts.run, sorted(distinct), budget)

    async def with_lanes(
        self, crawls: Iterable[CrawlState], spiders: Collection[str]
    ) -> Sequence[CrawlState]:
        """Return the crawls with the ``lanes`` of those that wait only for a missing crawler.

        By the first bands of the first ``LANES_PER_CALL``. ``spiders``: those with crawlers.
        """
        found = {state.crawl: state for state in crawls}
        idle = [state.crawl for state in found.values() if state.is_idle]
        backlog = (await self.state()).backlog if idle else {}
        lacks_any = any(of["domains"] and name not in spiders for name, of in backlog.items())
        asked = [crawl for crawl in idle if lacks_any or crawl.spiderid not in spiders]
        for crawl in asked[:LANES_PER_CALL]:
            name = FrontierKeys.crawl_field(crawl)
            answer = unpack_text(await _page(self._scripts.run, name, "0"))
            if answer:
                found[crawl] = replace(found[crawl], lanes=codec.lanes(answer[-1]))
        return list(found.values())

    async def states(self, crawls: Iterable[CrawlKey]) -> Mapping[CrawlKey, CrawlState]:
        """Return the ledgers of the known ones of these crawls, without their domains."""
        names = sorted({FrontierKeys.crawl_field(crawl) for crawl in crawls})
        found = await states_of(self._scripts.run, names, None)
        return {state.crawl: state for state in found}

    async def next_pages(self, crawl: CrawlKey, most: int) -> NextPages | None:
        """Return up to ``most`` pages that are requested next, in order; None: unknown crawl."""
        name = FrontierKeys.crawl_field(crawl)
        answer = unpack(await self._scripts.run("top", name, min(most, MOST_NEXT)))
        return top.next_pages(crawl, answer, most)

    async def state(self) -> FrontierState:
        """Return the counters of the frontier."""
        return codec.frontier_state(unpack(await self._scripts.run("glance")))


async def state_of(run: Run, name: str, budget: ListingBudget | None) -> CrawlState | None:
    """Return the ledger of a crawl's latest run; None for an unknown crawl.

    Its domains are listed as far as ``budget`` allows; None: not at all.
    """
    domains: dict[str, DomainBacklog] = {}
    lanes: set[str] = set()
    is_listed = budget is not None and budget.left_bytes > 0
    page = _page(run, name, "0" if is_listed else "")
    while True:
        answer = unpack_text(await page)
        if not answer or not answer[0]:
            return None
        record, cursor, listed, blocked, waited_for = answer
        is_more = cursor != "0" and budget is not None and budget.left_bytes > 0
        if is_more:
            page = _page(run, name, cursor)
            # Redis reads on while this page is unpacked.
            await let_leave()
        # A scan may show a domain twice.
        found = codec.backlog(listed, blocked)
        if budget:
            new = [name for name in found if name not in domains]
            budget.left_bytes -= sum(map(len, new)) + _BESIDE_NAME * len(new)
        domains |= found
        lanes.update(waited_for)
        if not is_more:
            state = _state(record, domains)
            is_left_out = budget is not None and not is_listed and state.queued > 0
            is_cut = cursor != "0" or is_left_out
            return replace(state, is_cut=is_cut, lanes=codec.lanes(lanes))


async def states_of(
    run: Run, names: Sequence[str], budget: ListingBudget | None
) -> Sequence[CrawlState]:
    """Return the ledgers of the known ones of the named crawls; see ``state_of``."""
    states: list[CrawlState] = []
    for at in range(0, len(names), LEDGERS_PER_CALL):
        answer = unpack_text(await run("ledgers", *names[at : at + LEDGERS_PER_CALL]))
        states += [_state(record, {}) for record in answer if record]
    if budget is None:
        return states
    full = [await _with_domains(run, state, budget) for state in states]
    return [state for state in full if state is not None]


async def _with_domains(run: Run, state: CrawlState, budget: ListingBudget) -> CrawlState | None:
    """Read a crawl again, with its domains if any pages wait there."""
    if not state.queued:
        return state
    return await state_of(run, FrontierKeys.crawl_field(state.crawl), budget)


def _state(record: Sequence[str], domains: Mapping[str, DomainBacklog]) -> CrawlState:
    fields = dict(zip(record[::2], record[1::2], strict=True))
    return codec.crawl_state(fields, list(domains.values()))


def _page(run: Run, name: str, cursor: str) -> asyncio.Future[object]:
    return asyncio.ensure_future(run("info", name, cursor, QUEUES_PER_CALL))
