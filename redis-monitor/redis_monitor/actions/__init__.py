"""Actions: a request in, the reply's bytes out; ``docs/plugins.md`` explains how to add one."""

from __future__ import annotations

from collections.abc import Mapping

from crawlstream.plugins import Action, Context
from crawlstream.plugins.actions import installed
from redis_monitor.actions.repliers import make_repliers
from redis_monitor.actions.stats_monitor import StatsMonitor
from redis_monitor.actions.zookeeper_monitor import ZookeeperMonitor


def load_actions(context: Context) -> Mapping[str, Action]:
    """Return the bundled actions and the installed ones, which may replace bundled ones.

    ConfigError names a faulty one.
    """
    ours: list[Action] = [
        *make_repliers(context),
        StatsMonitor(context),
        ZookeeperMonitor(context),
    ]
    return {action.name: action for action in [*ours, *installed(context)]}
