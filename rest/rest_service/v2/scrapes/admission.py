"""The beginning of a scrape: its seed is checked, admitted at the door of its site, and fed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from crawlstream.errors import KafkaUnavailable, RedisUnavailable
from crawlstream.model.egress.render import is_lane, lanes_of
from crawlstream.model.request import CrawlRequest
from crawlstream.model.throttle_table import ThrottleTable, site_of
from crawlstream.model.url import domain_key, host_of
from crawlstream.model.words.condition import absence
from crawlstream.wire import jsontext
from crawlstream_frontier.scrapes.door import Admission, DoorAnswer, DoorBounds, ScrapeTicket
from crawlstream_frontier.scrapes.scrape_names import ScrapeName
from rest_service.http.access import Client
from rest_service.http.audit import audited
from rest_service.http.envelope import RequestRefused
from rest_service.service import Service
from rest_service.topics.flights import FORGOTTEN_S, Flight
from rest_service.topics.recents import recent_key
from rest_service.v2.living import living_spiders
from rest_service.v2.scrapes.scrape_order import ScrapeOrder, as_crawl

MOST_SCRAPES = 20
"""Scrapes in progress of a client whose key has no limit of its own."""
_URL_LOGGED = 200


async def begin(order: ScrapeOrder, service: Service, client: Client) -> Flight:
    """Feed the seed of a scrape, or join an equal one that is in progress.

    RequestRefused gives the reason if it is not fed; it has taken nothing then. InvalidRequest,
    KafkaUnavailable, RedisUnavailable.
    """
    name = service.scrape_names.new(order.deadline, order.kind)
    plan = ScrapePlan.of(order, name, service, client)
    equal = order.equal(plan.request, name)
    async with service.flights.turn(equal):
        if flight := service.flights.join(equal):
            return flight
        await check_workers(service, plan.request)
        service.extraction.warm()
        service.records.warm(service.topics.crawled)
        with audited(client, "scrape", appid=plan.appid, url=plan.request.url[:_URL_LOGGED]):
            if not service.reach.kafka:
                raise KafkaUnavailable
            await service.quota.admit(client, 1)
            most = client.scrapes or MOST_SCRAPES
            flight, seed = await admit(plan, name, service, client, most=most)
            flight.equal = equal
            service.flights.add(flight)
            await feed(service, client, [flight], [seed])
    return flight


@dataclass(frozen=True, slots=True)
class ScrapePlan:
    """A scrape that is valid, and not admitted yet."""

    order: ScrapeOrder
    appid: str
    request: CrawlRequest

    @classmethod
    def of(
        cls, order: ScrapeOrder, name: ScrapeName, service: Service, client: Client
    ) -> ScrapePlan:
        """Check a scrape; RequestRefused, InvalidRequest."""
        order.check()
        appid = order.appid_for(client)
        return cls(order, appid, as_crawl(order.seed(appid, name), service.limits))


async def admit(
    plan: ScrapePlan, name: ScrapeName, service: Service, client: Client, *, most: int
) -> tuple[Flight, bytes]:
    """Admit a scrape at the door; return its flight, and the seed that is to be fed."""
    partition, ticket = await _ticket(service, client, plan.request, name)
    bounds = DoorBounds(
        share=service.settings.scrape_share,
        latest_s=min(plan.order.wait or plan.order.deadline, plan.order.deadline),
        forgotten_s=plan.order.deadline + FORGOTTEN_S,
        most=most,
    )
    answer = await _admitted(service, bounds, partition=partition, ticket=ticket)
    times = name.expires, answer.earliest
    asked = recent_key(plan.appid, plan.request.url, plan.order.kind)
    delayed = {"not_before": answer.not_before} if answer.not_before else {}
    seed = jsontext.dumps({**plan.order.seed(plan.appid, name), **delayed})
    return Flight(name.id, plan.appid, partition, *times, asked=asked), seed


async def feed(
    service: Service, client: Client, flights: Sequence[Flight], seeds: Sequence[bytes]
) -> None:
    """Feed the seeds of flights; end the flights if that fails."""
    try:
        await service.feed(seeds, client.traceparent)
    except BaseException:
        for flight in flights:
            service.flights.end(flight.id)
        raise


async def check_workers(service: Service, request: CrawlRequest) -> None:
    """Raise RequestRefused (409) if no crawler that runs would fetch the page."""
    spiders = await living_spiders(service)
    if spiders is None:
        raise RedisUnavailable("Redis does not answer")
    for lane in lanes_of(request.spiderid, request.render):
        if lane not in spiders:
            code = "no_renderer" if is_lane(lane) else "no_worker"
            raise RequestRefused(409, f"{absence(lane, spiders=spiders)}.", code=code)


async def _ticket(
    service: Service, client: Client, request: CrawlRequest, name: ScrapeName
) -> tuple[int, ScrapeTicket]:
    """Return the partition of the page's site, and the name of the scrape there."""
    table: ThrottleTable | None = await service.sampler.shared(
        "rules", service.frontier.rules.table
    )
    partition = service.frontier.partitions.of(domain_key(host_of(request.url)))
    return partition, ScrapeTicket(client.name, site_of(table, request.url), name.id)


async def _admitted(
    service: Service, bounds: DoorBounds, *, partition: int, ticket: ScrapeTicket
) -> DoorAnswer:
    """Return the door's answer if it admits the scrape; RequestRefused otherwise."""
    ended = service.flights.take_ended(partition)
    answer = await service.frontier[partition].door.enter(ticket, bounds, ended)
    if refused := _refusal(answer, bounds):
        raise refused
    return replace(answer, earliest=round(max(answer.earliest, time.time()), 3))


def _refusal(answer: DoorAnswer, bounds: DoorBounds) -> RequestRefused | None:
    match answer.admission:
        case Admission.OK:
            return None
        case Admission.BUSY:
            return RequestRefused(
                429,
                "The site's rule allows no further scrape to start within the time that this one"
                " waits.",
                code="site_busy",
                retry_after_s=answer.wait_s,
            )
        case Admission.TOO_MANY:
            return RequestRefused(
                429,
                f"Too many scrapes in progress; the maximum for this client is {bounds.most}.",
                code="too_many_scrapes",
            )
        case Admission.BLOCKED:
            return RequestRefused(
                409, "The site is blocked: its rule allows no requests.", code="site_blocked"
            )
        case Admission.UNKNOWN:
            return RequestRefused(503, "There are no throttle rules yet.", code="unavailable")
