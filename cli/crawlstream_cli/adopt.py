"""``crawlstream adopt``: let the frontier in Redis belong to the cluster of these settings."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from crawlstream.boot.settings import load_settings
from crawlstream.errors import ConfigError
from crawlstream.model.process import Process
from crawlstream.stats.heartbeat import living_in
from crawlstream_cli.common.client import explained
from crawlstream_cli.common.console import print_line, stderr_console
from crawlstream_frontier.opening.identity import adopt_cluster
from crawlstream_frontier.opening.servers import open_frontiers

_BOUND = frozenset({"kafka-monitor", "redis-monitor", "crawler"})
"""Kinds of processes that work on the frontier with the settings that they started with."""


def adopt() -> None:
    """Let the frontier in Redis belong to the cluster that the settings lead to.

    Needed after a change of KAFKA_TOPIC_PREFIX, ZOOKEEPER_ASSIGN_PATH or ZOOKEEPER_ID, and where
    Redis has a copy of another cluster's data. First stop all processes that use the old values.
    """
    for name, value in asyncio.run(_adopt()).items():
        print_line(f"{name}: {value}")


async def _adopt() -> Mapping[str, str]:
    settings = load_settings()
    async with open_frontiers(settings) as frontiers:
        with explained(settings):
            if names := _bound(await living_in(frontiers.heartbeats)):
                raise ConfigError(
                    f"these processes run with the old values: {names}: stop them first; a killed"
                    " process counts as running for 20 s"
                )
            noted = await adopt_cluster(settings, frontiers)
            if names := _bound(await living_in(frontiers.heartbeats)):
                stderr_console().print(f"started meanwhile, restart them: {names}")
            return noted


def _bound(living: Sequence[Process]) -> str:
    """Names of the processes that work on the frontier; nothing if there are none."""
    return ", ".join(sorted(each.name for each in living if each.kind in _BOUND))
