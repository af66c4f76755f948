"""Queries of a frontier of several partitions: all are queried, and their answers merged."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from crawlstream.errors import NoFrontier
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import NextPages
from crawlstream.model.partitions.messages import ContextKey, Look, RegisteredRun
from crawlstream.model.state import CrawlState, FrontierState
from crawlstream_frontier.codec.top import merged
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partitions.answers import Answers, Queryable, T
from crawlstream_frontier.partitions.merging import (
    in_transit,
    merge_crawl,
    merge_frontier,
    with_latest_run,
)
from crawlstream_frontier.queries import LISTED_BYTES, FrontierQueries
from crawlstream_frontier.scripts import our_errors


class DividedQueries(FrontierQueries):
    """As ``FrontierQueries``; answers name the partitions without an answer.

    Every method raises RedisUnavailable when no partition answers.
    """

    def __init__(self, frontiers: Queryable) -> None:
        self._frontiers = frontiers

    async def crawl_state(self, crawl: CrawlKey, *, with_domains: bool = True) -> CrawlState | None:
        """Return the ledger of a crawl's latest run, added up; None for an unknown crawl."""
        answers = await self._frontiers.query(
            lambda frontier: frontier.queries.crawl_state(crawl, with_domains=with_domains)
        )
        known = {p: state for p, state in answers.by_partition.items() if state is not None}
        merged = self._merged(crawl, known, answers) if known else None
        said = (await self._at_coordinators([crawl])).get(crawl)
        if said is None:
            return merged
        in_transit = await self._in_transit(ContextKey(crawl, said.generation))
        return replace(with_latest_run(merged, crawl, said), in_transit=in_transit)

    async def crawls(
        self, *, spiderid: str | None = None, appid: str | None = None, with_domains: bool = False
    ) -> Sequence[CrawlState]:
        """Return the crawls of all partitions, sorted by crawl name."""
        answers = await self._frontiers.query(
            lambda frontier: frontier.queries.crawls(
                spiderid=spiderid, appid=appid, with_domains=with_domains
            )
        )
        return await self._all(answers)

    async def with_lanes(
        self, crawls: Iterable[CrawlState], spiders: Collection[str]
    ) -> Sequence[CrawlState]:
        """Return the crawls with the lanes of those that wait only for a missing crawler."""
        found = {state.crawl: state for state in crawls}

        async def look(frontier: Frontier) -> Sequence[CrawlState]:
            own = await frontier.queries.states(found)
            return await frontier.queries.with_lanes(own.values(), spiders)

        lanes: dict[CrawlKey, set[str]] = defaultdict(set)
        for part in (await self._frontiers.query(look)).values:
            for state in part:
                lanes[state.crawl].update(state.lanes)
        return [
            replace(state, lanes=tuple(sorted(lanes[crawl]))) if state.is_idle else state
            for crawl, state in found.items()
        ]

    async def states(self, crawls: Iterable[CrawlKey]) -> Mapping[CrawlKey, CrawlState]:
        """Return the ledgers of the known ones of these crawls, without their domains."""
        asked = list(crawls)

        async def look(frontier: Frontier) -> Sequence[CrawlState]:
            return list((await frontier.queries.states(asked)).values())

        answers = await self._frontiers.query(look)
        return {state.crawl: state for state in await self._all(answers, asked)}

    async def next_pages(self, crawl: CrawlKey, most: int) -> NextPages | None:
        """Return up to ``most`` pages that are requested next, in order; None: unknown crawl."""
        answers = await self._frontiers.query(
            lambda frontier: frontier.queries.next_pages(crawl, most)
        )
        found = merged([part for part in answers.values if part is not None], most)
        return replace(found, is_complete=False) if found and answers.missing else found

    async def state(self) -> FrontierState:
        """Return the counters of the frontier."""

        async def look(frontier: Frontier) -> tuple[FrontierState, Collection[bytes], int]:
            scripts = frontier.scripts
            with our_errors():
                workers = await scripts.redis.zrange(scripts.keys.workers(), 0, -1)
                if not await scripts.redis.exists(scripts.keys.meta()):
                    raise NoFrontier("it has no data")
            return await frontier.queries.state(), workers, await frontier.coordinator.under_way()

        answers = await self._frontiers.query(look)
        return merge_frontier(
            {p: state for p, (state, _, _) in answers.by_partition.items()},
            answers.missing,
            crawls=sum(under_way for _, _, under_way in answers.values),
            workers=len({name for _, names, _ in answers.values for name in names}),
            servers=[self._frontiers.machine(p) for p in range(self._frontiers.partitions.number)],
        )

    async def _all(
        self, answers: Answers[Sequence[CrawlState]], also: Iterable[CrawlKey] = ()
    ) -> Sequence[CrawlState]:
        """Return the crawls in the answers and those of ``also``, sorted by crawl name."""
        found: dict[CrawlKey, dict[int, CrawlState]] = defaultdict(dict)
        for p, states in answers.by_partition.items():
            for state in states:
                found[state.crawl][p] = state
        merged = {crawl: self._merged(crawl, found[crawl], answers) for crawl in found}
        said = await self._at_coordinators({*found, *also})
        every = merged | {
            crawl: with_latest_run(merged.get(crawl), crawl, run) for crawl, run in said.items()
        }
        return [every[crawl] for crawl in sorted(every, key=FrontierKeys.crawl_field)]

    async def _at_coordinators(
        self, crawls: Iterable[CrawlKey]
    ) -> Mapping[CrawlKey, RegisteredRun]:
        """Return the runs of crawls, except those whose coordinators do not answer."""
        by_coordinator = defaultdict[Frontier, list[CrawlKey]](list)
        for crawl in crawls:
            by_coordinator[self._frontiers[self._frontiers.partitions.coordinator(crawl)]].append(
                crawl
            )
        if not by_coordinator:
            return {}

        async def look(frontier: Frontier) -> Mapping[CrawlKey, RegisteredRun]:
            return (
                await frontier.coordinator.runs(by_coordinator[frontier])
                if frontier in by_coordinator
                else {}
            )

        answers = await self._frontiers.query(look)
        return {crawl: run for said in answers.values for crawl, run in said.items()}

    async def _in_transit(self, context: ContextKey) -> int:
        """Return the number of link records from a crawl's pages that partitions must read."""

        async def look(frontier: Frontier) -> tuple[Look, Collection[str]]:
            requests = {topic for topic, _ in await frontier.coordinator.enrolled()}
            return await frontier.contexts.look([context]), requests

        answers = await self._frontiers.query(look)
        return in_transit(answers.by_partition)

    def _merged(
        self, crawl: CrawlKey, parts: Mapping[int, CrawlState], answers: Answers[T]
    ) -> CrawlState:
        coordinator = self._frontiers.partitions.coordinator(crawl)
        in_order = sorted(parts, key=lambda p: (p != coordinator, p))
        return merge_crawl([parts[p] for p in in_order], answers.missing, listed_bytes=LISTED_BYTES)
