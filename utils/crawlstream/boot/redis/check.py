"""All partitions at the start of a process: they agree, or it is said which do not answer.

A process also starts while some of them are away: what they have rests, everything else goes on. It
asks them again until they agree, too; one that turns out to be laid out otherwise ends the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import structlog
from redis.asyncio.cluster import RedisCluster
from redis.exceptions import ResponseError

from crawlstream.boot.redis.cluster import node_of
from crawlstream.boot.redis_check import (
    check_redis,
    refuse_eviction,
    refuse_layout,
    warnings_of,
)
from crawlstream.errors import ConfigError, RedisUnavailable
from crawlstream.frontier.frontier import Frontier
from crawlstream.frontier.layout import Layout, create_frontier, divide, known_layout
from crawlstream.frontier.partitions.frontiers import Frontiers, Server
from crawlstream.frontier.scripts import Scripts, our_errors
from crawlstream.keys import Partitions
from crawlstream.tasks import together

AGAIN_S = 1.0
"""Pause between two attempts to agree with partitions that were away at the start."""

log = structlog.get_logger()


async def check_frontiers(frontiers: Frontiers) -> Mapping[int, str]:
    """Agree with all partitions that answer; why the others do not, by number.

    ConfigError: one evicts keys, or is laid out otherwise. RedisUnavailable: none answers.
    """
    if len(frontiers) == 1 and not _is_cluster(frontiers.servers[0]):
        await check_redis(frontiers.root.scripts.redis, frontiers.partitions)
        return {}
    missing = await _agree(frontiers, range(len(frontiers)))
    if len(missing) == len(frontiers):
        raise RedisUnavailable("; ".join(sorted(set(missing.values()))))
    for p, reason in missing.items():
        name = frontiers.name(p)
        log.warning("check", service="redis", error=f"{name} does not answer: {reason}")
    return missing


async def agree_later(frontiers: Frontiers, missing: Iterable[int], stop: asyncio.Event) -> None:
    """Agree with the partitions that were away; ``stop`` is set if one is laid out otherwise."""
    left: Sequence[int] = list(missing)
    while left:
        await asyncio.sleep(AGAIN_S)
        try:
            left = list(await _agree(frontiers, left))
        except ConfigError as error:
            log.error("check", service="redis", error=str(error))  # noqa: TRY400  a sentence for people
            stop.set()
            return


def _is_cluster(server: Server) -> bool:
    return isinstance(server.redis, RedisCluster)


async def _agree(frontiers: Frontiers, partitions: Iterable[int]) -> Mapping[int, str]:
    by_server = groupby(partitions, lambda p: id(frontiers.servers[p]))
    shares = [list(share) for _, share in by_server]
    found = await together(_agree_on(frontiers, share) for share in shares)
    return {p: reason for share in found for p, reason in share.items()}


async def _agree_on(frontiers: Frontiers, share: Sequence[int]) -> Mapping[int, str]:
    """Agree with some of the partitions of one server."""
    server, partitions = frontiers.servers[share[0]], frontiers.partitions
    wanted = Layout(partitions=partitions.number, share=_share(frontiers, server))
    try:
        noted = await _divided(Scripts(server.redis, partitions.root), wanted)
    except RedisUnavailable:
        # Of a cluster, the node with this may be away alone: nothing is created until it answers.
        noted = None
    if noted is not None:
        refuse_share(noted, wanted, server, partitions)
    warned: set[str] = set()
    checks = (_check(frontiers, p, warned, may_create=noted is not None) for p in share)
    found = dict(zip(share, await together(checks), strict=True))
    return {p: reason for p, reason in found.items() if reason}


def _share(frontiers: Frontiers, server: Server) -> str:
    """What a server has of the partitions; nothing if it has all of them."""
    own = [p for p, its in enumerate(frontiers.servers) if its is server]
    return "" if len(own) == len(frontiers) else f"{own[0]}-{own[-1]}"


async def _divided(root: Scripts, wanted: Layout) -> Layout:
    if wanted.partitions == 1:
        return await create_frontier(root, wanted)
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


async def _create(frontier: Frontier, partitions: Partitions, *, may_create: bool) -> None:
    if may_create:
        found = await create_frontier(frontier.scripts, Layout(partitions=partitions.number))
    else:
        known = await known_layout(frontier.scripts)
        if known is None:
            raise RedisUnavailable("it has no data, and the node with the layout does not answer")
        found = known
    refuse_layout(found, partitions)


async def _check(
    frontiers: Frontiers, partition: int, warned: set[str], *, may_create: bool
) -> str:
    """Why a partition cannot be used now; nothing if it can."""
    frontier = frontiers[partition]
    try:
        await _check_server(frontier, warned)
        await _create(frontier, frontiers.partitions, may_create=may_create)
    except RedisUnavailable as error:
        return str(error)
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
    target = await node_of(frontier)
    with our_errors():
        answer: Mapping[str, Any] = await frontier.scripts.redis.info(section, **target)
    return answer


async def _cluster_warnings(frontier: Frontier) -> Sequence[str]:
    target = await node_of(frontier)
    if not target:
        return []
    name = "cluster-require-full-coverage"
    try:
        with our_errors():
            answer = await frontier.scripts.redis.config_get(name, **target)
    except ResponseError:
        # Managed servers do not tell.
        return []
    if answer.get(name) != "yes":
        return []
    return [
        f"The Redis Cluster stops as a whole when one primary is lost ({name} yes): set {name} no"
    ]
