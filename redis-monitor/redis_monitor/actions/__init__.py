"""The actions: a request in, the reply's bytes out. ``door`` tells how one is added."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import entry_points

from redis_monitor.actions.door import GROUP, Action, Context
from redis_monitor.actions.info import InfoMonitor
from redis_monitor.actions.stats import StatsMonitor
from redis_monitor.actions.steer import PauseMonitor, ReprioritizeMonitor, ResumeMonitor
from redis_monitor.actions.stop import StopMonitor
from redis_monitor.actions.zookeeper import ZookeeperMonitor


def load_actions(context: Context) -> Mapping[str, Action]:
    """Ours and the installed ones, by name; a user's may replace ours."""
    ours: list[Action] = [
        InfoMonitor(context),
        StopMonitor(context),
        PauseMonitor(context),
        ResumeMonitor(context),
        ReprioritizeMonitor(context),
        StatsMonitor(context),
        ZookeeperMonitor(context),
    ]
    users = [entry.load()(context) for entry in entry_points(group=GROUP)]
    return {action.name: action for action in [*ours, *users]}
