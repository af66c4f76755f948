"""Inspection of pages and domains in a frontier of several partitions."""

from __future__ import annotations

from collections.abc import Sequence

from crawlstream.errors import RedisUnavailable
from crawlstream.keys import FrontierKeys
from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport, PagePlace, PageReport
from crawlstream.model.throttle_table import ThrottleTable
from crawlstream.model.url import domain_key, host_of
from crawlstream_frontier.inspector import Inspector
from crawlstream_frontier.partitions.answers import Queryable, Question, T


class DividedInspector(Inspector):
    """As ``Inspector``; queries the one partition that has the page or domain."""

    def __init__(self, frontiers: Queryable) -> None:
        self._frontiers = frontiers

    async def crawls(self, most: int) -> Sequence[CrawlKey]:
        """Return up to ``most`` known crawls."""
        answers = await self._frontiers.query(lambda frontier: frontier.inspector.crawls(most))
        found = {crawl for part in answers.values for crawl in part}
        return sorted(found, key=FrontierKeys.crawl_field)[:most]

    async def page(self, crawl: CrawlKey, url: str) -> PageReport | None:
        """Return the state of a page in a crawl; None for an unknown crawl."""
        domain = domain_key(host_of(url))
        report = await self._of(domain, lambda frontier: frontier.inspector.page(crawl, url))
        return report or await self._never(crawl)

    async def domain(self, domain: str, view: str = "") -> DomainReport:
        """Return a domain's rule, state and waiting entries; may be a host with a rule."""
        return await self._of(
            domain_key(domain), lambda frontier: frontier.inspector.domain(domain, view)
        )

    async def _table(self, host: str) -> ThrottleTable | None:
        return await self._of(domain_key(host), lambda frontier: frontier.rules.table())

    async def _never(self, crawl: CrawlKey) -> PageReport | None:
        """Return the report of a page that its partition does not know; None: unknown crawl."""
        answers = await self._frontiers.query(
            lambda frontier: frontier.queries.crawl_state(crawl, with_domains=False)
        )
        for state in filter(None, answers.values):
            return PageReport(crawl=crawl, run=state.run, state=state.state, where=PagePlace.NEVER)
        return None

    async def _of(self, domain: str, question: Question[T]) -> T:
        """Query the partition of a domain; RedisUnavailable names it."""
        p = self._frontiers.partitions.of(domain)
        try:
            return await question(self._frontiers[p])
        except RedisUnavailable as error:
            raise RedisUnavailable(f"{self._frontiers.name(p)} does not answer: {error}") from error
