"""Parts of a kafka-monitor: for a frontier of one partition, or of several."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from crawlstream.boot.liveness import Liveness
from crawlstream.boot.settings import Settings
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_source
from crawlstream.bus.protocols import Sink, Source
from crawlstream.plugins.handlers import Router
from crawlstream.stats.tally import Tally
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partitions.frontiers import Frontiers
from crawlstream_frontier.partitions.labelling import Labelling
from crawlstream_traces.sender import SpanSender
from kafka_monitor.intake_loop import IntakeLoop
from kafka_monitor.offset_gaps import OffsetGapPolicy, skip_requests
from kafka_monitor.partitions.catch_up import CatchUp
from kafka_monitor.partitions.coordinators import Coordinators
from kafka_monitor.partitions.divided_intake import DividedIntake
from kafka_monitor.partitions.link_reader import LinkReader
from kafka_monitor.partitions.positions import DividedPositions
from kafka_monitor.partitions.steps import Steps
from kafka_monitor.partitions.unavailable_partitions import UnavailablePartitions
from kafka_monitor.poison import PoisonDetector
from kafka_monitor.recall import Recall
from kafka_monitor.recovery import Recovery
from kafka_monitor.rejections import RejectionPublisher
from kafka_monitor.request_intake import AppliedOffsets, IntakeTarget, RequestIntake
from kafka_monitor.schedule_memory import ScheduleMemory
from kafka_monitor.stop_lookahead import StopLookahead
from kafka_monitor.traced_intake import TracedIntake, Tracing


async def _nothing() -> None:
    """Nothing is left to be ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """Clients and settings that a kafka-monitor works with."""

    settings: Settings
    frontiers: Frontiers
    kafka: Kafka
    sink: Sink
    rejects: RejectionPublisher
    router: Router
    tally: Tally
    spans: SpanSender | None
    """Takes the spans of sampled seeds; None: traces are off."""
    join: Callable[[], Awaitable[None]]
    """Notes whose a frontier is that takes the place of a lost one."""

    @property
    def frontier(self) -> Frontier:
        """The only partition; of several the first."""
        return self.frontiers.root


@dataclass(frozen=True, slots=True, kw_only=True)
class MonitorParts:
    """Coroutines of one process, with their liveness."""

    source: Source
    loop: IntakeLoop
    helpers: Sequence[Coroutine[Any, Any, None]]
    """Coroutines that run permanently while the loop runs."""
    livenesses: Sequence[Liveness]
    """Liveness of the helpers."""
    stop: Callable[[], Awaitable[None]] = _nothing
    """Ends what they leave behind."""


def assemble(resources: Resources) -> MonitorParts:
    """The work on a frontier, however many partitions it has."""
    return _whole(resources) if len(resources.frontiers) == 1 else _divided(resources)


def _whole(resources: Resources) -> MonitorParts:
    settings, frontier, rejects = resources.settings, resources.frontier, resources.rejects
    topics, kafka, group = settings.topics, resources.kafka, settings.kafka_group
    recovery = Recovery(
        frontier.positions,
        resources.sink,
        topics,
        rejects=rejects,
        kafka=kafka,
        group=group,
        schedules=ScheduleMemory(frontier.schedules, kafka, topics),
        join=resources.join,
    )
    ahead = StopLookahead(
        frontier.intake, resources.router, recovery, kafka=kafka, topic=topics.incoming
    )
    recall = Recall(frontier.overflow, rejects, kafka=kafka, topics=topics, group=group)
    source, _, loop = _intake(resources, frontier.intake, recovery, full=ahead.is_wanted)
    helpers = (recall.run(), ahead.run())
    return MonitorParts(source=source, loop=loop, helpers=helpers, livenesses=[recall.liveness])


def _divided(resources: Resources) -> MonitorParts:
    settings, frontiers, rejects = resources.settings, resources.frontiers, resources.rejects
    topics, kafka, group = settings.topics, resources.kafka, settings.kafka_group
    labelling = Labelling(frontiers)
    dedupe_ms = settings.dupefilter_timeout * 1000
    coordinators = Coordinators(frontiers, resources.sink, kafka, topics, dedupe_ms=dedupe_ms)
    steps, leaving = (
        Steps(frontiers, coordinators, labelling),
        UnavailablePartitions(len(frontiers)),
    )
    way_in = DividedIntake(frontiers, steps, leaving)
    links = LinkReader(frontiers, labelling, rejects, kafka=kafka, topics=topics, group=group)
    positions = DividedPositions(way_in, kafka, topics, group=group)
    source, intake, loop = _intake(resources, way_in, positions, full=asyncio.Event())
    catch_up = CatchUp(
        frontiers,
        steps,
        leaving,
        intake=intake,
        rejects=rejects,
        kafka=kafka,
        topic=topics.incoming,
    )
    leaving.catch_up = catch_up.run

    async def stop() -> None:
        await way_in.stop()
        await labelling.stop()

    return MonitorParts(
        source=source,
        loop=loop,
        helpers=(coordinators.run(), links.run()),
        livenesses=[coordinators.liveness, links.liveness],
        stop=stop,
    )


def _intake(
    resources: Resources, way_in: IntakeTarget, standing: AppliedOffsets, *, full: asyncio.Event
) -> tuple[Source, RequestIntake, IntakeLoop]:
    settings, rejects = resources.settings, resources.rejects
    breaker = PoisonDetector(resources.frontier.positions)
    skip, topic = partial(skip_requests, way_in), settings.topics.incoming
    gaps = OffsetGapPolicy(skip, rejects, topic=topic)
    source = make_source(
        resources.kafka,
        topic,
        group=settings.kafka_group,
        locate=breaker.noting(standing.locate),
        on_out_of_range=gaps.decide,
    )
    parts = (way_in, resources.router, standing, breaker)
    intake = RequestIntake(*parts)
    if resources.spans is not None:
        tracing = Tracing(resources.spans, settings.traces_share)
        intake = TracedIntake(*parts, tracing=tracing)
    loop = IntakeLoop(source, intake, rejects, recovery=standing, full=full, tally=resources.tally)
    return source, intake, loop
