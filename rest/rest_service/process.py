"""A REST process: its clients, background tasks, server, and orderly shutdown."""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import Any

import structlog
import uvicorn
from redis.exceptions import RedisError
from starlette.types import ASGIApp

from crawlstream.boot.clients import kafka_of
from crawlstream.boot.garbage import return_large_blocks
from crawlstream.boot.health import Health, serve
from crawlstream.boot.log import configure
from crawlstream.boot.loopback import is_loopback
from crawlstream.boot.metrics import total_of
from crawlstream.boot.settings import Settings
from crawlstream.boot.signals import Stop
from crawlstream.boot.startup import until_ready
from crawlstream.bus.access.rights import Rights, check_rights
from crawlstream.bus.connect import Kafka
from crawlstream.bus.factory import make_sink
from crawlstream.bus.protocols import Sink
from crawlstream.bus.record_reader import RecordReader
from crawlstream.bus.tail import end_offsets
from crawlstream.egress.edit import PoolEditor
from crawlstream.errors import ConfigError, CrawlstreamError, KafkaRefused, RedisUnavailable
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import Heartbeat, Work
from crawlstream.tasks import beside, end, wait_until
from crawlstream.throttle.edit import ThrottleEditor
from crawlstream_frontier.opening.identity import check_cluster
from crawlstream_frontier.opening.servers import open_frontiers, shelf_of
from crawlstream_frontier.partitions.frontiers import Frontiers
from rest_service.agents.optional import mcp_route_of
from rest_service.app import make_app
from rest_service.http.byte_budget import ByteBudget
from rest_service.http.connections import KEEP_ALIVE_S, MAX_CONNECTIONS, Connections, allow_files
from rest_service.http.quota import Quota
from rest_service.metrics import REQUESTS, WAITING
from rest_service.sampler import Sampler
from rest_service.service import Service
from rest_service.topics.producer import ListProducer
from rest_service.topics.replies import ReplyReader
from rest_service.v2 import wellknown

LOOK_EVERY_S = 5.0
"""Seconds between checks of Kafka and Redis while both answer."""
_LOOK_SOON_S = 0.2
GRACEFUL_S = 10
"""Seconds that requests in progress may take after a stop."""

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT; raise ConfigError if the process cannot start."""
    configure(settings, "rest")
    return_large_blocks()
    stop = Stop()
    tools = mcp_route_of(settings)
    listener = _listen(settings)
    async with AsyncExitStack() as stack:
        stack.callback(listener.close)
        process = Process(kind="rest")
        kafka = kafka_of(settings, "rest")
        sink = make_sink(kafka, topics=_written(settings))
        stack.push_async_callback(sink.stop)
        shelf = await stack.enter_async_context(shelf_of(settings))
        frontier = await stack.enter_async_context(open_frontiers(settings, shelf=shelf))
        service = _service(
            settings, process.node, kafka=kafka, frontier=frontier, feeder=ListProducer(sink.send)
        )
        stack.push_async_callback(service.records.stop)
        stack.push_async_callback(service.extraction.close)
        stack.push_async_callback(service.maps.close)
        stack.push_async_callback(service.key_checks.close)
        service.pages_replied.on_arrival = service.flights.arrived
        wellknown.watch(settings)
        reader = ReplyReader(kafka, service.topics.outbound, service.replies, service.pages_replied)
        heartbeat = Heartbeat(
            service.redis,
            service.keys,
            process,
            work=lambda: Work(total_of(REQUESTS), int(total_of(WAITING))),
            also=frontier.heartbeats[1:],
        )
        helpers = await stack.enter_async_context(
            beside(
                *(reader.run(), heartbeat.run(), service.sampler.run(), _warming(service, reader)),
                *(service.flights.report(service.frontier), *([tools.run()] if tools else ())),
                _or_stop(stop, _sending(service, sink)),
                _or_stop(stop, _looking(service, reader)),
            )
        )
        check = partial(_health, service, reader, helpers)
        port, host = settings.metrics_port, settings.metrics_host
        await stack.enter_async_context(serve(port, check, host=host))
        log.info("start", node=process.node, host=settings.rest_host, port=settings.rest_port)
        await _serve(make_app(service, tools), listener, service=service, stop=stop)
        _raise_refusal(helpers)
    log.info("end")


def _listen(settings: Settings) -> socket.socket:
    """Open the socket before everything else; raise ConfigError with the reason if that fails."""
    host, port = settings.rest_host, settings.rest_port
    if not settings.api_keys and not is_loopback(host):
        raise ConfigError(
            f"CRAWLSTREAM_REST_HOST: {host} is not a loopback address: set CRAWLSTREAM_API_KEYS"
        )
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise ConfigError(
            f"CRAWLSTREAM_REST_PORT: cannot listen on {host} port {port}: {error.strerror}"
        ) from error


def _service(
    settings: Settings, node: str, *, kafka: Kafka, frontier: Frontiers, feeder: ListProducer
) -> Service:
    keys, redis = frontier.root.scripts.keys, frontier.root.scripts.redis
    sampler = Sampler(redis, keys, frontier.queries)
    return Service(
        settings=settings,
        topics=settings.topics,
        keys=keys,
        kafka=kafka,
        redis=redis,
        feeder=feeder,
        frontier=frontier,
        sampler=sampler,
        quota=Quota(frontier, sampler),
        records=RecordReader(kafka),
        scrape_bytes=ByteBudget(settings.scrape_bytes),
        editor=ThrottleEditor(
            settings.zookeeper_hosts, settings.throttle_path, default=settings.default_rule
        ),
        pools=PoolEditor(settings.zookeeper_hosts, settings.proxies_path),
        node=node,
    )


async def _or_stop(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Set ``stop`` and raise ConfigError if the process cannot work with its settings."""
    try:
        await work
    except ConfigError:
        stop.set()
        raise


async def _sending(service: Service, sink: Sink) -> None:
    """Start the sink as soon as Kafka is up; raise ConfigError if Kafka denies access."""
    await until_ready("kafka", partial(check_rights, service.kafka, _rights(service)))
    await sink.start()
    await asyncio.Event().wait()


def _written(settings: Settings) -> Sequence[str]:
    """Return the topics that REST writes to."""
    topics = settings.topics
    return [topics.incoming, *([topics.events] if settings.indexnow else [])]


def _rights(service: Service) -> Rights:
    return Rights(reads=[service.topics.outbound], writes=_written(service.settings))


async def _warming(service: Service, reader: ReplyReader) -> None:
    """Start a worker as soon as the process is ready, if a client may scrape."""
    await wait_until(lambda: reader.has_caught_up, timeout_s=math.inf, every_s=_LOOK_SOON_S)
    keys = service.settings.api_keys
    if not keys or any(key.role != "read" for key in keys):
        service.extraction.warm()
    await asyncio.Event().wait()


async def _looking(service: Service, reader: ReplyReader) -> None:
    """Check repeatedly which services answer; more often while one does not.

    Raises ConfigError if Redis belongs to another cluster.
    """
    while True:
        service.reach.redis = await _redis_answers(service)
        obstacle = await _obstacle_in_kafka(service, reader)
        service.reach.obstacle = str(obstacle or "")
        service.reach.kafka = reader.is_reading and not obstacle
        is_whole = service.reach.redis and service.reach.kafka
        is_refused = isinstance(obstacle, KafkaRefused)
        await asyncio.sleep(LOOK_EVERY_S if is_whole or is_refused else _LOOK_SOON_S)


async def _redis_answers(service: Service) -> bool:
    try:
        async with asyncio.timeout(LOOK_EVERY_S):
            await check_cluster(service.settings, service.frontier)
    except (RedisUnavailable, RedisError, OSError, TimeoutError):
        return False
    return True


def _raise_refusal(helpers: Sequence[asyncio.Task[None]]) -> None:
    """Raise the ConfigError of a helper that stopped the process, if there is one."""
    for helper in helpers:
        if helper.done() and isinstance(error := helper.exception(), ConfigError):
            raise error


async def _obstacle_in_kafka(service: Service, reader: ReplyReader) -> CrawlstreamError | None:
    """Return why Kafka does not answer, or which right it refuses if something has failed."""
    try:
        await end_offsets(service.kafka, service.topics.incoming)
        if service.feeder.has_failed or reader.liveness.waiting_for:
            await check_rights(service.kafka, _rights(service))
            service.feeder.has_failed = False
    except CrawlstreamError as error:
        return error
    return None


def _health(service: Service, reader: ReplyReader, helpers: Sequence[asyncio.Task[None]]) -> Health:
    why = service.reach.obstacle or reader.liveness.waiting_for if service.reach.missing else ""
    past = "" if reader.has_caught_up else "replies of the last hour"
    return Health(
        alive=not any(helper.done() for helper in helpers),
        waiting_for=": ".join(filter(None, (", ".join(service.reach.missing), why))) or past,
        details={"kept_bytes": service.replies.kept_bytes + service.once.remembered_bytes},
    )


class _Server(uvicorn.Server):
    """Leaves signals to the process: they end more than the server."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers."""
        yield


async def _serve(
    app: ASGIApp, listener: socket.socket, *, service: Service, stop: asyncio.Event
) -> None:
    connections = Connections(most=allow_files(), each=service.settings.rest_peer_connections)
    config = uvicorn.Config(
        app,
        http=connections.protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        # The client's address is the socket's, not one that a header names.
        proxy_headers=False,
        # Requests whose clients have gone are counted here, but not as connections.
        limit_concurrency=2 * MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACEFUL_S,
    )
    # uvicorn logs a line of its own for every byte that is not HTTP.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    server = _Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stopped = asyncio.create_task(stop.wait())
    async with beside(connections.watch()):
        await asyncio.wait([serving, stopped], return_when=asyncio.FIRST_COMPLETED)
        service.stopping.set()
        server.should_exit = True
        await end([stopped])
        await serving
