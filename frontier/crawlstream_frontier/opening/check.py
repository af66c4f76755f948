"""All partitions at the start of a process: they agree, or it is said which do not answer.

A process also starts while some of them are away: what they have rests, everything else goes on. It
asks them again until they agree, too; one that turns out to be laid out otherwise ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal

import structlog
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import ReadOnlyError, RedisError, ResponseError

from crawlstream.boot.redis.cluster import node_of
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
from crawlstream_frontier.partitions.frontiers import Frontiers, Server
from crawlstream_frontier.scripts import Scripts, our_errors

AGAIN_S = 1.0
"""Pause between two attempts to agree with partitions that were away at the start."""

Missing = Literal["new", "lost", "away"]
"""What a partition without data is taken for; only kafka-monitors create one among several."""
Join = Callable[[], Awaitable[None]]
"""Compares with a partition, once it is there, whose it is; see ``boot.redis.identity``."""

log = structlog.get_logger()


async def check_frontiers(frontiers: Frontiers, missing_are: Missing = "new") -> Mapping[int, str]:
    """Agree with all partitions that answer; why the others do not, by number.

    ``missing_are`` those without data: what is new, or lost, is created. ConfigError: one evicts
    keys, or is laid out otherwise. RedisUnavailable: none answers.
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
    """Agree with the partitions that were away; ``stop`` is set if one cannot be worked with."""
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
    """As ``agree_later``; then have partitions created anew that lose all their data.

    What they had is read again from Kafka: of a process that does so.
    """
    await agree_later(frontiers, missing, stop, "lost", join=join)
    while len(frontiers) > 1 and not stop.is_set():
        await asyncio.sleep(AGAIN_S)
        lost = await _without_data(frontiers)
        if lost:
            log.error("check", service="redis", outcome="lost", partitions=lost)
            await agree_later(frontiers, lost, stop, "lost", join=join)


async def _without_data(frontiers: Frontiers) -> Sequence[int]:
    """Partitions whose server answers, and has nothing of them."""
    try:
        answers = await frontiers.ask(lambda frontier: known_layout(frontier.scripts))
    except RedisUnavailable:
        return []
    return [p for p, layout in answers.by_partition.items() if layout is None]


def _is_cluster(server: Server) -> bool:
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
    """Agree with some of the partitions of one server."""
    server, partitions = frontiers.servers[share[0]], frontiers.partitions
    wanted = Layout(partitions=partitions.number, share=_share(frontiers, server))
    try:
        noted = await _divided(Scripts(server.redis, partitions.root), wanted, missing_are)
    except RedisUnavailable:
        # Of a cluster, the node with this may be away alone: nothing is created until it answers.
        noted = None
    if noted is not None:
        refuse_share(noted, wanted, server, partitions)
    warned: set[str] = set()
    missing_are = missing_are if noted is not None else "away"
    checks = (_check(frontiers, p, warned, missing_are) for p in share)
    found = dict(zip(share, await together(checks), strict=True))
    return {p: reason for p, reason in found.items() if reason}


def _share(frontiers: Frontiers, server: Server) -> str:
    """What a server has of the partitions; nothing if it has all of them."""
    own = [p for p, its in enumerate(frontiers.servers) if its is server]
    return "" if len(own) == len(frontiers) else f"{own[0]}-{own[-1]}"


async def _divided(root: Scripts, wanted: Layout, missing_are: Missing) -> Layout | None:
    if wanted.partitions == 1:
        return await create_frontier(root, wanted)
    if missing_are == "away":
        return await known_division(root)
    return await divide(root, wanted)


def refuse_share(noted: Layout, wanted: Layout, server: Server, partitions: Partitions) -> None:
    """ConfigError if a server has other partitions than the order of the servers gives it."""
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
    """Why a partition cannot be used now; nothing if it can."""
    frontier = frontiers[partition]
    try:
        await _check_server(frontier, warned)
        await _create(frontier, frontiers.partitions, missing_are)
    except RedisUnavailable as error:
        # A replica among several may be about to take over; meanwhile the others go on.
        if not isinstance(error.__cause__, ReadOnlyError):
            refuse(error)
        return str(error)
    except RedisError as error:
        refuse(error)
        raise
    return ""


async def _check_server(frontier: Frontier, warned: set[str]) -> None:
    """Refuse a server that drops keys; say once what else may cost work."""
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
    """What the server of a partition tells of itself."""
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
        # Managed servers do not tell.
        return []
    if answer.get(name) != "yes":
        return []
    return [
        f"The Redis Cluster stops as a whole when one primary is lost ({name} yes): set {name} no"
    ]
