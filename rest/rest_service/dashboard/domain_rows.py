"""Rows of the screen of domains: what each is doing, and why its pages wait."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Self

from crawlstream.model.crawl import CrawlKey
from crawlstream.model.inspection import DomainReport
from crawlstream.model.state import CrawlState
from crawlstream.model.throttle_table import ThrottleRule
from crawlstream.model.traffic import DomainTraffic
from crawlstream.model.words.condition import Spiders, no_crawler_of
from rest_service.dashboard.render import effect, span
from rest_service.service import Service
from rest_service.v2.living import living_spiders

_PAUSED_READ = 20
"""Paused crawls whose domains are read: those with the most waiting pages."""


@dataclass(frozen=True, slots=True)
class Waits:
    """Why pages wait that no rule holds back."""

    spiders: Spiders
    """Spiders with a running crawler; None: unknown."""
    paused: Mapping[str, Mapping[CrawlKey, int]]
    """By domain, the waiting pages of each paused crawl."""

    @classmethod
    async def of(cls, service: Service) -> Self:
        """Read the domains of paused crawls; raise RedisUnavailable."""
        await service.sampler.fresh()
        known = [one for one in service.sampler.crawls if one.state == "paused" and one.pending]
        known.sort(key=lambda one: one.pending, reverse=True)
        read = service.frontier.queries.crawl_state
        found = await service.sampler.shared(
            "paused", lambda: asyncio.gather(*(read(one.crawl) for one in known[:_PAUSED_READ]))
        )
        return cls(await living_spiders(service), _by_domain(found))


def _by_domain(found: Iterable[CrawlState | None]) -> Mapping[str, Mapping[CrawlKey, int]]:
    paused: dict[str, dict[CrawlKey, int]] = defaultdict(dict)
    for state in filter(None, found):
        for domain in state.domains if state.state == "paused" else ():
            paused[domain.domain][state.crawl] = domain.total
    return paused


@dataclass(frozen=True, slots=True)
class DomainRow:
    """A domain with its rule, traffic and state."""

    name: str
    source: str
    rule: ThrottleRule
    traffic: DomainTraffic | None = None
    report: DomainReport | None = None
    paused: Mapping[CrawlKey, int] = field(default_factory=dict)
    """Waiting pages of paused crawls."""
    spiders: Spiders = None

    @property
    def waiting(self) -> int:
        """Pages that wait in the domain, as far as their queues are listed."""
        return sum(self._queued.values()) + sum(self.paused.values())

    @property
    def _queued(self) -> Mapping[str, int]:
        """Listed pages by spider, without those of paused crawls, whose queues leave it in time."""
        queued: dict[str, int] = defaultdict(int)
        for queue in self.report.queues if self.report else ():
            open_queues = [each for each in queue.first if each.crawl not in self.paused]
            if open_queues:
                queued[queue.spiderid] += sum(each.queued for each in open_queues)
        return queued

    @property
    def allowed_per_minute(self) -> float:
        """Requests per minute that the rule allows at present."""
        return 0.0 if self.rule.is_paused else 60 * self.rule.effective_hits / self.rule.window_s

    @property
    def limited_by(self) -> str:
        """Return what limits the requests to it while pages wait that no pause holds back."""
        return limited_by(self.rule, self.report, self.traffic, sum(self._queued.values()))

    @property
    def condition(self) -> str:
        """Present state of the domain, in a word or two."""
        if self.source == "blacklist":
            return "blocked"
        if self.rule.is_paused or not self.rule.effective_hits:
            return "paused" if self.rule.is_paused else "held back"
        if self.traffic and self.traffic.is_failing:
            return f"failing: {self.traffic.top_reason}".rstrip(": ")
        if self.report and (self.report.strikes or self.report.silences):
            return "backs off"
        if self.report and self.report.is_outside_hours:
            return "outside its hours"
        return self._work

    @property
    def _work(self) -> str:
        """State by its pages: whether they are fetched, and if not, why."""
        queued = self._queued
        lacking = [name for name in queued if self.spiders is not None and name not in self.spiders]
        if not (self.report and self.report.under_way) and queued and len(lacking) == len(queued):
            return no_crawler_of(*lacking)
        if queued or (self.report and self.report.under_way):
            return "busy"
        return f"paused: {sum(self.paused.values()):,} pages" if self.paused else "quiet"


def limited_by(
    rule: ThrottleRule, report: DomainReport | None, traffic: DomainTraffic | None, waiting: int
) -> str:
    """Return in a line what limits the requests to a domain, and how long; "": no page waits."""
    if not waiting:
        return ""
    if rule.is_paused or not rule.effective_hits:
        return f"its rule: {effect(rule)}"
    if report and (report.is_outside_hours or report.strikes or report.silences):
        return _why_spared(report)
    spacing_ms = 1000 * rule.window_s / rule.effective_hits
    if report and (required := _why_spaced(report, spacing_ms, waiting)):
        return required
    latency = traffic.latency_ms if traffic and traffic.latency_ms else 0
    if latency > spacing_ms * rule.concurrency:
        each = latency / rule.concurrency
        at_once = f"{span(latency)} for a response, {rule.concurrency} at a time"
        return f"the site: {at_once}; {_whole(waiting, each)}"
    return f"its rule: {effect(rule, waiting)}"


def _why_spaced(report: DomainReport, spacing_ms: float, waiting: int) -> str:
    """Return what requires more than this time between requests; "": nothing."""
    needs = {"its robots.txt": report.crawl_delay_ms, "its latency": report.gentle_ms}
    what = max(needs, key=lambda name: needs[name])
    pace = f"{what}: {span(needs[what])} between requests; {_whole(waiting, needs[what])}"
    return pace if needs[what] > spacing_ms else ""


def _why_spared(report: DomainReport) -> str:
    if report.is_outside_hours:
        return "its robots.txt: no visits at this time of day (Visit-time)"
    if report.strikes:
        return f"its {report.strikes} refusals: it gets one request at a time"
    return f"its {report.silences} requests without an answer: it gets fewer requests"


def _whole(waiting: int, each_ms: float) -> str:
    return f"{waiting:,} page{'s' * (waiting != 1)} in {span(waiting * each_ms)}"
