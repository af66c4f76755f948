"""Create the parts of a worker and connect them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crawling.autorender.choice import RenderChoice
from crawling.background import Tasks
from crawling.egress.patience import Patience
from crawling.egress.payments import Payments
from crawling.egress.routes import Routes
from crawling.egress.signatures import Signatures
from crawling.egress.tls import TlsChoice
from crawling.lease.leases import Leases
from crawling.lease.slots import SLOW_PER_SLOT
from crawling.lease.traced import Sampling, TracedLeases
from crawling.links.blacklist import Blacklist
from crawling.links.scope import RedirectRules
from crawling.links.traps import Traps
from crawling.metrics import Meter
from crawling.page.body_budget import BodyBudget
from crawling.page.flight_recorder import FlightRecorder
from crawling.page.page import Page
from crawling.parts import Parts
from crawling.publish.completion import Completion
from crawling.publish.link_sender import LinkSender, LinkTopic
from crawling.publish.publisher import Publisher
from crawling.publish.spill import Spiller
from crawling.publish.traced import TracedPublisher
from crawling.requisites.fetching import RequisiteParts
from crawling.requisites.requisites import Requisites
from crawling.response.outcome import Outcomes
from crawling.robots.elsewhere import Elsewhere
from crawling.robots.further import FurtherRobots
from crawling.robots.rights_files import RightsFiles
from crawling.robots.robots import Robots
from crawling.robots.screen import Screening
from crawling.robots.timed_screen import TracedScreening
from crawling.robots.verdicts import Verdicts
from crawling.runtime.clients import Clients
from crawling.runtime.domain_budgets import DomainBudgets
from crawling.runtime.lease_guard import LeaseGuard
from crawling.runtime.neighbours import Neighbours
from crawling.runtime.render_screen import RenderScreen
from crawling.runtime.request_source import RequestSource
from crawling.runtime.sessions import Sessions
from crawling.runtime.spare_return import SpareReturn
from crawling.runtime.way import Way
from crawling.tls.targets import require
from crawling.waste.watch import WasteWatch
from crawlstream.boot.settings import Settings
from crawlstream.keys import encode_id
from crawlstream.model.egress.render import lane_of
from crawlstream.model.process import Process
from crawlstream.model.web.guard_mode import GuardMode
from crawlstream.stats.tally import Tally
from crawlstream_traces.sender import SpanSender, open_sender

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts of a worker, and its sessions."""

    parts: Parts
    sessions: Sessions
    way: Way
    robots: Robots
    begin_to_end: Callable[[], None]
    """Lease nothing more, and send the records that wait for Kafka at once."""
    spans: SpanSender | None
    """Sends the spans of sampled pages; None: traces are off."""


def assemble(
    crawler: Crawler, process: Process, clients: Clients, *, tally: Tally, tasks: Tasks
) -> Assembly:
    """Create the parts of one worker; a lambda refers to a part that is created later."""
    settings: Settings = crawler.settings["CRAWLSTREAM"]
    meter = Meter(process.spider, settings.download_slots)
    recorder = FlightRecorder(Path(settings.home) / "recorder", encode_id(process.spider))
    spans = open_sender(settings.traces, process)
    leases, publisher = _leases(clients, settings, lambda: sessions.news(), spans)  # noqa: PLW0108  made below
    leases.spiller = _spiller(clients, settings, publisher, leases=leases, tasks=tasks)
    endings = _completion(clients, settings, leases, publisher, tasks=tasks)
    blacklist, count = _blacklist(clients, settings), _Counting(process, tally, meter)
    signatures, payments = _paying(clients, settings, process, tasks)
    routes, rules = _routes(clients, settings, tally), _redirects(crawler, blacklist)
    outcomes = Outcomes(endings, leases, settings, count, payments=payments, redirects=rules)
    way, noting = Way(crawler, routes, _tls(clients, settings)), recorder.noting
    robots, screen, further = _robots(
        crawler, clients, outcomes, way=way, noting=noting, tasks=tasks
    )
    sessions = Sessions.of(
        clients,
        leases,
        _guarded(screen, robots, outcomes, tasks=tasks, way=way, noting=noting),
        endings.deadlines,
        meter=meter,
        may_lease=lambda: not publisher.waits_for and way.has_room,
    )
    requisites = _requisites(
        crawler, clients, outcomes, publisher, further=further, way=way, noting=noting
    )
    ending = _Ending(sessions, publisher)
    source = RequestSource(crawler, sessions.ready, outcomes, way=way, on_end=ending.begin)
    parts = Parts(
        leases=leases,
        body_budget=leases.body_budget,
        recorder=recorder,
        publisher=publisher,
        endings=endings,
        outcomes=outcomes,
        traps=Traps(settings.max_path_segments, settings.max_path_repeats),
        blacklist=blacklist,
        routes=routes,
        signatures=signatures,
        payments=payments,
        renders=settings.render,
        fetch_by_proxy=way.fetch_by_proxy,
        sitemaps_of=robots.sitemaps_of,
        bring_requisites=requisites.bring,
        requests=source.requests,
    )
    return Assembly(parts, sessions, way, robots, ending.begin, spans)


def _robots(
    crawler: Crawler,
    clients: Clients,
    outcomes: Outcomes,
    *,
    way: Way,
    noting: Callable[[Page], AbstractContextManager[None]],
    tasks: Tasks,
) -> tuple[Robots, Screening, FurtherRobots]:
    """Return the judge of pages by robots.txt, what screens them, and that of further requests.

    Where files of rights are read, these screen pages, too.
    """
    agent, leases = crawler.settings["USER_AGENT"] or "", outcomes.leases
    elsewhere = Elsewhere(clients, leases, tasks, fetch=way.fetch, agent=agent)
    how: Any = {"fetch": way.fetch, "noting": noting, "agent": agent}
    screen: Screening
    robots = screen = Robots(outcomes, tasks, elsewhere, **how)
    if kinds := outcomes.settings.rights_files:
        screen = RightsFiles(kinds, robots, elsewhere.book, leases=leases, tasks=tasks, **how)
    if isinstance(leases, TracedLeases):
        screen = TracedScreening(screen, leases)
    screen = _chosen(crawler, clients, screen, outcomes, tasks=tasks)
    return robots, screen, FurtherRobots(robots, elsewhere, Verdicts(outcomes, agent))


def _requisites(
    crawler: Crawler,
    clients: Clients,
    outcomes: Outcomes,
    publisher: Publisher,
    *,
    further: FurtherRobots,
    way: Way,
    noting: Callable[[Page], AbstractContextManager[None]],
) -> Requisites:
    """Return what archives requisites; it also archives redirects."""
    requisites = Requisites(
        RequisiteParts(
            leases=outcomes.leases,
            robots=further,
            publisher=publisher,
            table=clients.rules.table,
            fetch=way.fetch_by_proxy,
            noting=noting,
            settings=outcomes.settings,
            agent=crawler.settings["USER_AGENT"] or "",
        )
    )
    outcomes.archive = requisites.redirected
    return requisites


def _chosen(
    crawler: Crawler, clients: Clients, screen: Screening, outcomes: Outcomes, *, tasks: Tasks
) -> Screening:
    """Return what screens pages by their need for a browser, too, and releases spare ones."""
    choice = RenderChoice(lambda partition: clients.frontiers[partition].sketches, tasks)
    screen = SpareReturn(screen, outcomes.leases)
    lane = lane_of(crawler.spidercls.name, renders=outcomes.settings.render)
    chosen = RenderScreen(screen, choice, outcomes.leases, tasks, lane=lane)
    outcomes.look = chosen.look
    return chosen


def _guarded(
    screen: Screening,
    robots: Robots,
    outcomes: Outcomes,
    *,
    tasks: Tasks,
    way: Way,
    noting: Callable[[Page], AbstractContextManager[None]],
) -> Screening:
    """Return what screens pages by budgets of their domains and the waste guard, too."""
    waste, agent = outcomes.endings.waste, robots.agent
    if waste is None:
        return DomainBudgets(screen, outcomes.endings.skipping)
    neighbours = None
    if outcomes.settings.guard_neighbours:
        neighbours = Neighbours(
            waste,
            robots,
            leases=outcomes.leases,
            tasks=tasks,
            fetch=way.fetch,
            noting=noting,
            agent=agent,
        )
    guard = LeaseGuard(screen, waste, outcomes, neighbours)
    return DomainBudgets(guard, outcomes.endings.skipping)


def _leases(
    clients: Clients,
    settings: Settings,
    on_report: Callable[[], None],
    spans: SpanSender | None,
) -> tuple[Leases, Publisher]:
    """Return the leases and the publisher, with traces or without."""
    leases: Leases
    slots: tuple[int, Callable[[], None]] = (settings.download_slots, on_report)
    how: Any = {
        "body_budget": BodyBudget(settings.download_max_bytes),
        "slow_per_slot": 0 if settings.render else SLOW_PER_SLOT,
    }
    if spans is None:
        leases, publisher = Leases(*slots, **how), Publisher(clients.sink, settings)
    else:
        sampling = Sampling(settings.traces_share, failures=settings.traces_failures)
        leases = traced = TracedLeases(*slots, sender=spans, sampling=sampling, **how)
        publisher = TracedPublisher(clients.sink, settings, traced)
    leases.sites.site_of, leases.machines.groups_of = clients.site_of, clients.groups_of
    leases.timeout_s = settings.download_timeout
    return leases, publisher


def _completion(
    clients: Clients, settings: Settings, leases: Leases, publisher: Publisher, *, tasks: Tasks
) -> Completion:
    endings = Completion(leases, publisher, tasks, settings.retry_times)
    if settings.guard_most is not GuardMode.OFF:
        endings.waste = WasteWatch(
            lambda partition: clients.frontiers[partition].sketches,
            clients.site_of,
            publisher.verdict,
            clients.frontiers.root.person_verdicts,
            asks=settings.guard_neighbours,
        )
    return endings


def _spiller(
    clients: Clients, settings: Settings, publisher: Publisher, *, leases: Leases, tasks: Tasks
) -> Spiller | LinkSender:
    """Return the sender to Kafka of links that this partition does not take."""
    if clients.labelling is None:
        (session,) = clients.sessions
        return Spiller(session, publisher, leases, tasks)
    group = f"{settings.kafka_group}.links"
    return LinkSender(
        LinkTopic(publisher, clients.kafka, settings.topics.links, group=group),
        settings.partitions,
        origin_of=lambda page: clients.sessions[page.lease.partition].origin(page.token),
        leases=leases,
        tasks=tasks,
    )


def _routes(clients: Clients, settings: Settings, tally: Tally) -> Routes:
    patience = Patience(clients.redis, settings.keys, most_s=settings.max_wait)
    return Routes(
        clients.pools, patience, clients.book, group=settings.egress_group, count=tally.count
    )


def _tls(clients: Clients, settings: Settings) -> TlsChoice:
    """Return the choice of TLS profiles; ConfigError if a profile is not installed."""
    require(settings.tls_profiles)
    return TlsChoice(clients.handshakes, settings.tls_profiles)


def _paying(
    clients: Clients, settings: Settings, process: Process, tasks: Tasks
) -> tuple[Signatures | None, Payments | None]:
    """Return what signs and what pays: sites charge the owner of a signature."""
    signatures = Signatures.of(settings, process.spider)
    return signatures, Payments(clients.purses, process.name, tasks) if signatures else None


def _blacklist(clients: Clients, settings: Settings) -> Blacklist:
    drops = not settings.scheduler_backlog_blacklist
    return Blacklist(clients.rules, drops=drops, is_asked=settings.render)


def _redirects(crawler: Crawler, blacklist: Blacklist) -> RedirectRules:
    return RedirectRules(blacklist, of_pages=getattr(crawler.spidercls, "fetches_pages", True))


class _Ending:
    """The first step of a worker's end; it may be repeated."""

    def __init__(self, sessions: Sessions, publisher: Publisher) -> None:
        self._sessions = sessions
        self._publisher = publisher

    def begin(self) -> None:
        self._sessions.drain()
        self._publisher.hurry()


class _Counting:
    """Counts the responses of a worker, for ``stats`` and for Prometheus."""

    def __init__(self, process: Process, tally: Tally, meter: Meter) -> None:
        self._process = process
        self._tally = tally
        self._meter = meter

    def __call__(self, page: Page, status: int, reason: str = "") -> None:
        self._tally.count_response(self._process.spider, self._process.host, status)
        latency_ms = page.latency_ms if page.status else None
        self._tally.domains.count(page.lease.domain, status, latency_ms, reason=reason)
        self._tally.count_traffic(status, latency_ms)
        self._meter.response(status, latency_ms)
