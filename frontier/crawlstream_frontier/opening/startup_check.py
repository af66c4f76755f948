"""Start-up check: verify the layout of all partitions, and report those that do not answer.

A process also starts while some partitions are unavailable: their pages wait, and all other work
continues. It retries until they agree as well. A partition with another layout ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import structlog
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from crawlstream.boot.redis.cluster_client import node_of
from crawlstream.boot.redis.refusals import refuse
from crawlstream.errors import ConfigError, RedisUnavailable
from crawlstream.keys import Partitions
from crawlstream.tasks import together
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.layout import (
    Layout,
    create_frontier,
    divide,
    known_division,
    known_layout,
)
from crawlstream_frontier.opening.redis_check import (
    check_redis,
    refuse_eviction,
    refuse_layout,
    warnings_of,
)
from crawlstream_frontier.partitions.frontiers import Frontiers, RedisServer
from crawlstream_frontier.scripts import Scripts, our_errors

AGAIN_S = 1.0
"""Pause between two attempts to reach partitions that were unavailable at the start."""

Missing = Literal["new", "lost", "away"]
"""Meaning of a partition without data; only kafka-monitors create one of several partitions."""
Join = Callable[[], Awaitable[None]]
"""Checks which cluster a partition belongs to, once it answers; see ``opening.identity``."""

log = structlog.get_logger()


async def check_frontiers(frontiers: Frontiers, missing_are: Missing = "new") -> Mapping[int, str]:
    """Check all partitions that answer; return why the others do not, by number.

    ``missing_are`` applies to partitions without data: new or lost ones are created. ConfigError:
    a server evicts keys, or a partition has another layout. RedisUnavailable: none answers.
    """
    if len(frontiers) == 1 and not _is_cluster(frontiers.servers[0]):
        await check_redis(frontiers.root.scripts.redis, frontiers.partitions)
        return {}
    missing = await _agree(frontiers, range(len(frontiers)), missing_are)
    if len(missing) == len(frontiers):
        raise RedisUnavailable("; ".join(sorted(set(missing.values()))))
    for p, reason in missing.items():
        name = frontiers.name(p)
        log.warning("check", service="redis", error=f"{name} does not answer: {reason}")
    return missing


async def agree_later(
    frontiers: Frontiers,
    missing: Iterable[int],
    stop: asyncio.Event,
    missing_are: Missing = "new",
    *,
    join: Join | None = None,
) -> None:
    """Retry the unavailable partitions until they agree; set ``stop`` if one cannot be used."""
    left: Sequence[int] = list(missing)
    while left:
        try:
            still = list(await _agree(frontiers, left, missing_are))
            if join and len(still) < len(left):
                await join()
            left = still
        except RedisUnavailable as error:
            log.debug("check", service="redis", error=str(error))
        except ConfigError as error:
            log.error("check", service="redis", error=str(error))  # noqa: TRY400  a sentence for people
            stop.set()
            return
        if left:
            await asyncio.sleep(AGAIN_S)


async def keep_agreeing(
    frontiers: Frontiers, missing: Iterable[int], stop: asyncio.Event, join: Join | None = None
) -> None:
    """Run ``agree_later``; then create partitions again whenever they lose all their data.

    Only for a process that reads the lost data again from Kafka.
    """
    await agree_later(frontiers, missing, stop, "lost", join=join)
    while len(frontiers) > 1 and not stop.is_set():
        await asyncio.sleep(AGAIN_S)
        lost = await _without_data(frontiers)
        if lost:
            log.error("check", service="redis", outcome="lost", partitions=lost)
            await agree_later(frontiers, lost, stop, "lost", join=join)


async def _without_data(frontiers: Frontiers) -> Sequence[int]:
    """Return the partitions that have no data although their server answers."""
    try:
        answers = await frontiers.query(lambda frontier: known_layout(frontier.scripts))
    except RedisUnavailable:
        return []
    return [p for p, layout in answers.by_partition.items() if layout is None]


def _is_cluster(server: RedisServer) -> bool:
    return isinstance(server.redis, RedisCluster)


async def _agree(
    frontiers: Frontiers, partitions: Iterable[int], missing_are: Missing
) -> Mapping[int, str]:
    by_server = groupby(partitions, lambda p: id(frontiers.servers[p]))
    shares = [list(share) for _, share in by_server]
    found = await together(_agree_on(frontiers, share, missing_are) for share in shares)
    return {p: reason for share in found for p, reason in share.items()}


async def _agree_on(
    frontiers: Frontiers, share: Sequence[int], missing_are: Missing
) -> Mapping[int, str]:
    """Check some of the partitions of one server; return why partitions are unusable, by number."""
    server, partitions = frontiers.servers[share[0]], frontiers.partitions
    wanted = Layout(partitions=partitions.number, share=_share(frontiers, server))
    try:
        noted = await _divided(Scripts(server.redis, partitions.root), wanted, missing_are)
    except RedisUnavailable:
        # In a cluster, the node of this key alone may be down: create nothing until it answers.
        noted = None
    if noted is not None:
        refuse_share(noted, wanted, server, partitions)
    warned: set[str] = set()
    missing_are = missing_are if noted is not None else "away"
    checks = (_check(frontiers, p, warned, missing_are) for p in share)
    found = dict(zip(share, await together(checks), strict=True))
    return {p: reason for p, reason in found.items() if reason}


def _share(frontiers: Frontiers, server: RedisServer) -> str:
    """Return the range of partitions on a server; empty if it has all of them."""
    own = [p for p, its in enumerate(frontiers.servers) if its is server]
    return "" if len(own) == len(frontiers) else f"{own[0]}-{own[-1]}"


async def _divided(root: Scripts, wanted: Layout, missing_are: Missing) -> Layout | None:
    if wanted.partitions == 1:
        return await create_frontier(root, wanted)
    if missing_are == "away":
        return await known_division(root)
    return await divide(root, wanted)


def refuse_share(
    noted: Layout, wanted: Layout, server: RedisServer, partitions: Partitions
) -> None:
    """Raise ConfigError if a server has other partitions than the order of the servers implies."""
    refuse_layout(noted, partitions)
    if noted.share != wanted.share:
        raise ConfigError(
            f"Redis at {server.name} has {_named(noted.share)} of the frontier"
            f" {partitions.namespace}, but this process expects {_named(wanted.share)} there:"
            " list the servers in the order in which the frontier was created"
        )


def _named(share: str) -> str:
    first, _, last = share.partition("-")
    if first == last:
        return f"partition {first}" if share else "all partitions"
    return f"partitions {share}"


async def _create(frontier: Frontier, partitions: Partitions, missing_are: Missing) -> None:
    if missing_are == "away":
        known = await known_layout(frontier.scripts)
        if known is None:
            raise RedisUnavailable("it has no data yet, or has lost it")
        found = known
    else:
        layout, is_lost = Layout(partitions=partitions.number), missing_are == "lost"
        found = await create_frontier(frontier.scripts, layout, is_lost=is_lost)
    refuse_layout(found, partitions)


async def _check(
    frontiers: Frontiers, partition: int, warned: set[str], missing_are: Missing
) -> str:
    """Return the reason why a partition cannot be used now; empty if it can."""
    frontier = frontiers[partition]
    try:
        await _check_server(frontier, warned)
        await _create(frontier, frontiers.partitions, missing_are)
    except RedisUnavailable as error:
        # A replica among several servers may be about to take over; the others continue.
        if not isinstance(error.__cause__, ReadOnlyError):
            refuse(error)
        return str(error)
    except RedisError as error:
        refuse(error)
        raise
    return ""


async def _check_server(frontier: Frontier, warned: set[str]) -> None:
    """Refuse a server that evicts keys; warn once of other settings that may lose work."""
    memory, persistence = [
        await info_of(frontier, section) for section in ("memory", "persistence")
    ]
    refuse_eviction(memory)
    warnings = [*warnings_of(memory, persistence), *await _cluster_warnings(frontier)]
    for warning in warnings:
        if warning not in warned:
            warned.add(warning)
            log.warning("check", service="redis", error=warning)


async def info_of(frontier: Frontier, section: str) -> Mapping[str, Any]:
    """Return a section of ``INFO`` of a partition's server."""
    scripts = frontier.scripts
    with our_errors():
        target = await node_of(scripts.redis, scripts.keys.tag)
        answer: Mapping[str, Any] = await scripts.redis.info(section, **target)
    return answer


async def _cluster_warnings(frontier: Frontier) -> Sequence[str]:
    scripts = frontier.scripts
    with our_errors():
        target = await node_of(scripts.redis, scripts.keys.tag)
    if not target:
        return []
    name = "cluster-require-full-coverage"
    try:
        with our_errors():
            answer = await scripts.redis.config_get(name, **target)
    except ResponseError:
        # Managed servers refuse CONFIG.
        return []
    if answer.get(name) != "yes":
        return []
    return [
        f"The Redis Cluster stops as a whole when one primary is lost ({name} yes): set {name} no"
    ]
