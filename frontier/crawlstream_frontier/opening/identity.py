"""Check that a frontier belongs to this cluster; a wrong setting could mix two clusters.

The namespace in Redis, the topics in Kafka and the node in ZooKeeper are separate settings. Redis
stores those that its processes started with, so that a process of another cluster does not start.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Literal

from redis.exceptions import RedisError

from crawlstream.boot.settings import Settings
from crawlstream.errors import ConfigError, CrawlstreamError, Unavailable
from crawlstream_frontier.codec.values import unpack_text
from crawlstream_frontier.frontier import Frontier
from crawlstream_frontier.partitions.answers import Answers
from crawlstream_frontier.partitions.frontiers import Frontiers

EARLY_S = 5.0
"""Seconds for which a process tries to reach a Redis that it does not need yet."""
_VARIABLES = {"prefix": "KAFKA_TOPIC_PREFIX", "node": "ZOOKEEPER_ASSIGN_PATH and ZOOKEEPER_ID"}
"""Names of the settings, by the field of their value in Redis."""
Mode = Literal["look", "note", "force"]
"""Compare; also store missing values; or replace the stored values."""


async def check_cluster(settings: Settings, frontiers: Frontiers) -> None:
    """Compare the settings that every process uses; for commands and readers of the frontier.

    ConfigError names the setting and both values. RedisUnavailable: no answer.
    """
    await _agree(frontiers, _values(settings), "look")


async def check_early(settings: Settings, frontiers: Frontiers) -> None:
    """Run ``check_cluster`` before a process creates topics; ignore a Redis that is unavailable."""
    with contextlib.suppress(Unavailable, RedisError, OSError, TimeoutError):
        async with asyncio.timeout(EARLY_S):
            await check_cluster(settings, frontiers)


async def join_cluster(settings: Settings, frontiers: Frontiers, *, rules: bool = False) -> None:
    """Compare, and store missing values; for processes that change the frontier.

    ``rules``: this process brings the rules from ZooKeeper. A process that is refused has stored
    nothing in any partition. Raises ConfigError and RedisUnavailable like ``check_cluster``.
    """
    wanted = _values(settings, rules=rules)
    if len(frontiers) > 1:
        answers = await _agree(frontiers, wanted, "look")
        first = min(answers.by_partition)
        # If two clusters start at once, the first partition decides which one owns the frontier.
        noted = await _belong(frontiers[first], wanted, "note")
        _refuse_others(frontiers, wanted, Answers({first: noted}, {}))
    await _agree(frontiers, wanted, "note")


async def adopt_cluster(settings: Settings, frontiers: Frontiers) -> Mapping[str, str]:
    """Assign the frontier to the cluster of these settings; return the stored values by setting.

    CrawlstreamError: a partition does not answer; then nothing was changed. NoFrontier: there is
    no frontier to assign.
    """
    wanted = _values(settings, rules=True)
    modes: Sequence[Mode] = ("look", "force")
    for mode in modes:
        answers = await _belong_all(frontiers, wanted, mode)
        if answers.missing:
            away = "; ".join(f"{frontiers.name(p)}: {why}" for p, why in answers.missing.items())
            raise CrawlstreamError(f"{away}: repeat the command when all partitions answer")
    return {_VARIABLES[name]: value for name, value in wanted.items()}


def _values(settings: Settings, *, rules: bool = False) -> Mapping[str, str]:
    """Return the values to store; empty for settings that the process does not use."""
    return {
        "prefix": settings.kafka_topic_prefix,
        "node": settings.throttle_path if rules else "",
    }


async def _belong(frontier: Frontier, wanted: Mapping[str, str], mode: Mode) -> list[str]:
    """Return the values stored before, in the order of ``wanted``."""
    scripts = frontier.scripts
    if mode == "look":
        # A plain read also works while Redis does not accept writes.
        values = await scripts.redis.hmget(scripts.keys.meta(), list(wanted))
        return [(value or b"").decode() for value in values]
    answer = await scripts.run("belong", mode, wanted["prefix"], wanted["node"])
    known: list[str] = unpack_text(answer)
    return known


async def _belong_all(
    frontiers: Frontiers, wanted: Mapping[str, str], mode: Mode
) -> Answers[list[str]]:
    return await frontiers.query(lambda frontier: _belong(frontier, wanted, mode))


async def _agree(frontiers: Frontiers, wanted: Mapping[str, str], mode: Mode) -> Answers[list[str]]:
    answers = await _belong_all(frontiers, wanted, mode)
    _refuse_others(frontiers, wanted, answers)
    return answers


def _refuse_others(
    frontiers: Frontiers, wanted: Mapping[str, str], answers: Answers[list[str]]
) -> None:
    """Raise ConfigError if a partition belongs to another cluster."""
    for values in answers.values:
        for (name, ours), theirs in zip(wanted.items(), values, strict=True):
            if ours and theirs not in {"", ours}:
                raise ConfigError(_refusal(frontiers, _VARIABLES[name], ours, theirs))


def _refusal(frontiers: Frontiers, variable: str, ours: str, theirs: str) -> str:
    namespace, at = frontiers.partitions.namespace, frontiers.servers[0].name
    return (
        f"{variable}: {ours} here, but the frontier {namespace} in Redis at {at} belongs to a"
        f" cluster with {theirs}: use the settings of that cluster, or give this one a"
        " CRAWLSTREAM_NAMESPACE of its own; to change the cluster itself, stop all of its processes"
        " and run `crawlstream adopt`"
    )
